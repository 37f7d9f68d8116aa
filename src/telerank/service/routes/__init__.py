"""The routes of the service, an APIRouter each."""
