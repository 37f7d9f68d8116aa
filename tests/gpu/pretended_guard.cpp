// What torch's autograd asks of a device and of CUDA: one device, one stream, nothing to wait for.
// No function says `override`: releases of torch differ in what they ask.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

constexpr c10::DeviceType CUDA = c10::DeviceType::CUDA;

struct PretendedGuard final : c10::impl::NoOpDeviceGuardImpl<CUDA> {
  c10::Device getDevice() const noexcept { return c10::Device(CUDA, 0); }
  c10::Device exchangeDevice(c10::Device) const noexcept { return getDevice(); }
  c10::Stream getStream(c10::Device) const noexcept { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept { return 1; }

  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(CUDA, 0)); }
};

struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const {}
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasCUDA() const { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const { return true; }
  int getNumGPUs() const { return 1; }
  c10::DeviceIndex deviceCount() const { return 1; }
  c10::DeviceIndex current_device() const { return 0; }
  c10::DeviceIndex getCurrentDevice() const { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const { return 0; }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(CUDA, PretendedGuard);

namespace at {
using ::CUDAHooks;  // torch asks the registry for this name
REGISTER_CUDA_HOOKS(CUDAHooks);
}  // namespace at
