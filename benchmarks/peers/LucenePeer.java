import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.analysis.en.EnglishAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LogByteSizeMergePolicy;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.*;
import org.apache.lucene.store.MMapDirectory;
import org.apache.lucene.util.Version;

/** Obeys the commands of engine.py; uses only what Lucene 8 to 10 have alike. */
public final class LucenePeer {
    private static final String FIELD = "text";
    private static final int LONGEST_TERM = 8000; // 255 would cut terms in two
    private Analyzer analyzer;
    private IndexSearcher searcher;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        LucenePeer peer = new LucenePeer();
        boolean text = arguments.length > 0 && arguments[0].equals("--text");
        peer.analyzer = text ? new EnglishAnalyzer() : new WhitespaceAnalyzer(LONGEST_TERM);
        out.println("ok\t" + Version.LATEST + " on Java " + Runtime.version().feature());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            long start = System.nanoTime();
            try {
                peer.obey(line.split("\t"));
                out.println("ok\t" + (System.nanoTime() - start) / 1e9);
            } catch (Exception error) {
                out.println("error\t" + error.toString().replace('\n', ' '));
            }
        }
    }

    private void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "build": build(Path.of(words[1]), Path.of(words[2])); break;
            case "open": open(Path.of(words[1])); break;
            default: search(Files.readAllLines(Path.of(words[1])), Integer.parseInt(words[2]), words[3], Path.of(words[4]));
        }
    }

    /** One thread, one segment, frequencies without positions; merging neighbours only keeps rows in order. */
    private void build(Path documents, Path folder) throws Exception {
        IndexWriterConfig config = new IndexWriterConfig(analyzer);
        config.setRAMBufferSizeMB(512).setMergePolicy(new LogByteSizeMergePolicy());
        config.setMergeScheduler(new SerialMergeScheduler());
        FieldType type = new FieldType();
        type.setIndexOptions(IndexOptions.DOCS_AND_FREQS);
        type.freeze();
        try (MMapDirectory directory = new MMapDirectory(folder);
                IndexWriter writer = new IndexWriter(directory, config);
                BufferedReader lines = Files.newBufferedReader(documents)) {
            Field field = new Field(FIELD, "", type);
            Document document = new Document();
            document.add(field);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                field.setStringValue(line);
                writer.addDocument(document);
            }
            writer.forceMerge(1);
        }
    }

    private void open(Path folder) throws Exception {
        searcher = new IndexSearcher(DirectoryReader.open(new MMapDirectory(folder)));
        searcher.setQueryCache(null);
    }

    private void search(List<String> queries, int k, String model, Path answers) throws Exception {
        searcher.setSimilarity(similarity(model));
        long[] times = new long[queries.size()];
        ScoreDoc[][] found = new ScoreDoc[queries.size()][];
        long hits = 0;
        for (int i = 0; i < times.length; i++) {
            long start = System.nanoTime();
            found[i] = searcher.search(query(queries.get(i)), k).scoreDocs;
            times[i] = System.nanoTime() - start;
            hits += found[i].length;
        }
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(answers)))) {
            out.writeLong(times.length);
            out.writeLong(hits);
            for (long time : times) out.writeLong(time);
            for (ScoreDoc[] docs : found) out.writeInt(docs.length);
            for (ScoreDoc[] docs : found) for (ScoreDoc doc : docs) out.writeInt(doc.doc);
            for (ScoreDoc[] docs : found) for (ScoreDoc doc : docs) out.writeFloat(doc.score);
        }
    }

    private static Query query(String line) {
        BooleanQuery.Builder terms = new BooleanQuery.Builder();
        for (String term : line.split(" ")) {
            if (!term.isEmpty()) terms.add(new TermQuery(new Term(FIELD, term)), Occur.SHOULD);
        }
        return terms.build();
    }

    /** From telerank's text form of a model, with every parameter written out. */
    private static Similarity similarity(String model) {
        Map<String, String> values = new HashMap<>();
        Matcher pair = Pattern.compile("(\\w+)=([\\w.]+)").matcher(model);
        while (pair.find()) values.put(pair.group(1), pair.group(2));
        switch (model.substring(0, model.indexOf('('))) {
            case "bm25": return new BM25Similarity(number(values, "k1"), number(values, "b"));
            case "lm_dirichlet": return new LMDirichletSimilarity(number(values, "mu"));
            case "lm_jelinek_mercer": return new LMJelinekMercerSimilarity(number(values, "lambda"));
            case "dfi": return new DFISimilarity(independence(values.get("independence")));
            case "dfr": return new DFRSimilarity(basic(values.get("basic_model")),
                after(values.get("after_effect")), normalization(values));
            default: throw new IllegalArgumentException("no such model: " + model);
        }
    }

    private static float number(Map<String, String> values, String name) {
        return Float.parseFloat(values.get(name));
    }

    private static Independence independence(String name) {
        switch (name) {
            case "standardized": return new IndependenceStandardized();
            case "saturated": return new IndependenceSaturated();
            default: return new IndependenceChiSquared();
        }
    }

    private static BasicModel basic(String name) {
        switch (name) {
            case "g": return new BasicModelG();
            case "if": return new BasicModelIF();
            case "in": return new BasicModelIn();
            default: return new BasicModelIne();
        }
    }

    private static AfterEffect after(String name) {
        switch (name) {
            case "b": return new AfterEffectB();
            case "l": return new AfterEffectL();
            default: throw new IllegalArgumentException("Lucene has no after-effect " + name);
        }
    }

    private static Normalization normalization(Map<String, String> values) {
        switch (values.get("normalization")) {
            case "h1": return new NormalizationH1(number(values, "c"));
            case "h2": return new NormalizationH2(number(values, "c"));
            case "h3": return new NormalizationH3(number(values, "mu"));
            case "z": return new NormalizationZ(number(values, "z"));
            default: return new Normalization.NoNormalization();
        }
    }
}
