package org.perigee.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;

/**
 * One training on the executors of a Spark cluster: the driver runs `perigee train --listen`, each of `workers` ordinary tasks `perigee worker
 * --join`. Fields are what is asked for; after train() also what came of it. README.md says what each means.
 */
public final class Run {
  public String job, label = "label", data = "export", shared = "spark-data", out, resume, program = "perigee";
  public String[] features = {"features"};
  public List<String> settings = new ArrayList<>(), arguments = new ArrayList<>();
  public int[] shape;
  public int workers, minWorkers = 1;
  public Dataset<Row> train, test;
  public Consumer<JsonNode> onEvent = Run::say;

  /** The run folder on the driver's machine, and the last event. */
  public String folder;
  public JsonNode end;
  /** How often Spark had started each worker's task before it ended well. */
  public final Map<Integer, Integer> attempts = new TreeMap<>();
  /** Names of the classes, where the label is a text. */
  public String[] classes;

  private final ObjectMapper json = new ObjectMapper();
  private Dataset<Row> held;  // the rows that tasks keep; null: none
  private Columns heldColumns;

  /** Trains to the end. PerigeeException says what went wrong, and where the run is if it can go on. */
  public Run train(SparkSession spark) throws Exception {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(spark.sparkContext());
    SparkConf conf = context.getConf();
    check(conf, context.master());
    if (!Arrays.asList("export", "resident").contains(data))
      throw new PerigeeException("data '" + data + "': it is export, files that all machines see, or resident, tasks that keep their partitions");
    int threads = conf.getInt("spark.task.cpus", 1);
    if (workers == 0) workers = Math.max(1, context.defaultParallelism() / threads);
    held = null;
    heldColumns = null;
    Path scratch = Program.privateFolder();
    try {
      List<String> words = new ArrayList<>(Arrays.asList(program, "train"));
      if (train == null) words.addAll(withSettings(job));
      else words.add(Program.privateFile(scratch, "job.json", json.writeValueAsBytes(withData())).toString());
      byte[] secret = (String.join("\n", Program.run(program, "secret", "new")) + "\n").getBytes(StandardCharsets.US_ASCII);
      words.addAll(Arrays.asList("--listen", conf.get("spark.driver.host", "127.0.0.1") + ":0", "--log", "json", "--min-workers", "" + minWorkers,
          "--secret", "-", "--parent", Program.parent()));
      words.addAll(arguments);
      if (resume != null) words.addAll(Arrays.asList("--resume", resume));
      else if (out != null) words.addAll(Arrays.asList("--out", out));
      lead(words, context, secret, threads);
    } finally {
      Program.remove(scratch);
    }
    return this;
  }

  private static void check(SparkConf conf, String master) {
    if (conf.getBoolean("spark.speculation", false))
      throw new PerigeeException("spark.speculation starts a second copy of a slow task, which would train as one more worker: set it to false");
    boolean safe = conf.getBoolean("spark.authenticate", false) && conf.getBoolean("spark.network.crypto.enabled", false);
    if (!safe && !master.startsWith("local"))
      System.err.println("warning: the run's secret goes to the executors unencrypted: set spark.authenticate and spark.network.crypto.enabled");
  }

  private List<String> withSettings(String what) {
    List<String> words = new ArrayList<>(Collections.singletonList(what));
    for (String setting : settings) words.addAll(Arrays.asList("--set", setting));
    return words;
  }

  /** The job with the DataFrames in the place of its own data. */
  private JsonNode withData() throws Exception {
    List<String> words = new ArrayList<>(Collections.singletonList("describe"));
    words.addAll(withSettings(job));
    words.add("--json");
    ObjectNode described = (ObjectNode) json.readTree(String.join("\n", Program.run(program, words)));
    ObjectNode parts = described.withObject("/data");
    parts.remove(Arrays.asList("train", "test"));
    List<String> names = Arrays.asList(train.columns());
    boolean texts = label != null && names.contains(label) && train.schema().apply(label).dataType().equals(DataTypes.StringType);
    if (texts) {
      List<Row> found = train.select(label).distinct().orderBy(label).collectAsList();
      if (found.stream().anyMatch(row -> row.isNullAt(0))) throw new PerigeeException("rows have no label; drop or fill them");
      classes = found.stream().map(row -> row.getString(0)).toArray(String[]::new);
    }
    String place = shared.contains(":") ? shared : new File(shared).getAbsolutePath();
    boolean classify = described.path("loss").asText().equals("cross_entropy");  // Spark ML's labels are doubles, also those of classes
    if (data.equals("resident")) {
      held = train.coalesce(workers);
      heldColumns = columns(train, classify);
      parts.put("at", "partitions").set("train", Resident.describe(held.toJavaRDD(), program, heldColumns, json));
    } else {
      parts.set("train", Export.run(train, place, columns(train, classify), json));
    }
    if (test != null) parts.set("test", test(place, columns(test, classify)));
    return described;
  }

  /** With resident data the coordinator serves it, from wherever it is. */
  private ObjectNode test(String place, Columns columns) throws IOException {
    return held != null && !place.contains(":") ? Resident.onDriver(test, place, columns, json) : Export.run(test, place, columns, json);
  }

  private Columns columns(Dataset<Row> from, boolean classify) {
    return new Columns(from.schema(), features, label, shape, classes, classify);
  }

  private static void say(JsonNode event) {
    if (!event.path("event").asText().equals("epoch")) return;
    StringBuilder text = new StringBuilder("epoch " + event.path("epoch").asInt() + ":");
    JsonNode tested = event.path("test");
    if (event.path("loss").isNumber()) text.append(String.format(Locale.ROOT, " loss %.4f", event.path("loss").asDouble()));
    for (String figure : new String[] {"loss", "accuracy"})
      if (tested.path(figure).isNumber()) text.append(String.format(Locale.ROOT, ", test %s %.4f", figure, tested.path(figure).asDouble()));
    System.out.println(text);
  }

  private void hear(String line, CountDownLatch started) {
    JsonNode event;
    try {
      event = json.readTree(line);
    } catch (JsonProcessingException noEvent) {
      return;
    }
    String kind = event.path("event").asText();
    if (kind.equals("end")) end = event;
    if (kind.equals("start")) {
      folder = Paths.get(event.path("folder").asText()).toAbsolutePath().toString();
      started.countDown();
    }
    try {
      onEvent.accept(event);
    } catch (RuntimeException error) {  // a listener's mistake must not stop the run
      System.err.println("warning: on event: " + error);
    }
  }

  /** Runs the coordinator beside the driver, and the workers as one job of Spark, to the end of both. */
  private void lead(List<String> words, JavaSparkContext context, byte[] secret, int threads) throws Exception {
    CountDownLatch started = new CountDownLatch(1);
    Process lead = Program.start(words, Collections.emptyMap(), false, secret);
    Program.Reader errors = new Program.Reader(lead.getErrorStream(), line -> {});
    Program.Reader events = new Program.Reader(lead.getInputStream(), line -> hear(line, started));
    lead.onExit().thenRun(started::countDown);
    Throwable failure = null;
    try {
      started.await();
      if (folder != null) work(context, secret, threads);
    } catch (Exception | Error error) {  // also a job that was cancelled: a checkpoint is left
      failure = error;
      if (end == null) lead.destroy();
    }
    int code = waitFor(lead);
    events.tail();
    if (code != 0)
      throw new PerigeeException(saidByWorker(failure) + "perigee train: exit code " + code + ": " + errors.tail().strip()
          + (folder == null ? "" : "; the run is in " + folder + ", with resume it goes on"), failure);
    if (failure != null && end == null) throw new PerigeeException("the workers' job failed: " + failure.getMessage(), failure);
  }

  /** The line of `perigee` with which a worker ended its task: Spark puts it into the middle of the job's failure. */
  private static String saidByWorker(Throwable failure) {
    String text = failure == null ? "" : String.valueOf(failure.getMessage());
    return text.lines().filter(line -> line.startsWith("perigee: ")).findFirst().map(line -> line + "\n").orElse("");
  }

  private void work(JavaSparkContext context, byte[] secret, int threads) throws IOException {
    String address = json.readTree(Files.readAllBytes(Paths.get(folder, "cluster.json"))).path("listen").asText();
    JavaRDD<Row> rows = held != null ? held.toJavaRDD() : context.parallelize(new ArrayList<Row>(), workers);  // tasks without rows
    Work task = new Work(program, address, secret, threads, heldColumns);
    for (int[] done : rows.mapPartitionsWithIndex(task, true).collect()) attempts.put(done[0], done[1]);
  }

  /** An interrupt asks the coordinator to stop; the checkpoint that it leaves is waited for. */
  private static int waitFor(Process lead) {
    boolean interrupted = false;
    while (true) {
      try {
        int code = lead.waitFor();
        if (interrupted) Thread.currentThread().interrupt();
        return code;
      } catch (InterruptedException asked) {
        if (!interrupted) lead.destroy();
        interrupted = true;
      }
    }
  }
}
