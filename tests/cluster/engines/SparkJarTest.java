package org.perigee.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.Pipeline;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.ml.PipelineStage;
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator;
import org.apache.spark.ml.feature.StringIndexer;
import org.apache.spark.ml.feature.VectorAssembler;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/** The part of spark_jar_test.py inside an application: SparkJarTest FOLDER PROGRAM CASES...; a line of TAP for each case. */
public final class SparkJarTest {
  private static Path folder;
  private static String program;
  private static SparkSession spark;

  private SparkJarTest() {}

  public static void main(String[] words) throws Exception {
    folder = Paths.get(words[0]);
    program = words[1];
    spark = SparkSession.builder().getOrCreate();
    boolean failed = false;
    for (String name : Arrays.copyOfRange(words, 2, words.length)) {
      try {
        SparkJarTest.class.getDeclaredMethod(name).invoke(null);
        System.out.println("ok - " + name);
      } catch (java.lang.reflect.InvocationTargetException wrong) {
        System.out.println("not ok - " + name);
        wrong.getCause().printStackTrace(System.out);
        failed = true;
      }
    }
    spark.stop();
    if (failed) System.exit(1);
  }

  static void check(boolean right, Object seen) {
    if (!right) throw new AssertionError(seen);
  }

  /** Eight numbers a row, which say the label, and a name for it; in four partitions. */
  static Dataset<Row> table(long rows) {
    Dataset<Row> data = spark.range(0, rows, 1, 4).toDF("id");
    for (int i = 0; i < 8; ++i) data = data.withColumn("f" + i, functions.cos(functions.col("id").multiply((i * 37 + 11) % 1000 * 0.37)).cast("float"));
    Column up = functions.col("f0").plus(functions.col("f1")).gt(0);
    data = data.withColumn("name", functions.when(up, "up").otherwise("down")).withColumn("label", up.cast("int"));
    return data.withColumn("features", functions.array(columns()));
  }

  static Column[] columns() {
    return names().stream().map(functions::col).toArray(Column[]::new);
  }

  static List<String> names() {
    return Stream.of(0, 1, 2, 3, 4, 5, 6, 7).map(i -> "f" + i).collect(Collectors.toList());
  }

  static PerigeeEstimator estimator(String out) {
    return new PerigeeEstimator().setJob(folder + "/job.json").setWorkers(2).setProgram(program).setShared(folder + "/shared")
        .setOut(folder + "/" + out);
  }

  static Run run(String out, int epochs) {
    Run run = new Run();
    run.job = folder + "/job.json";
    run.train = table(4096);
    run.workers = 2;
    run.program = program;
    run.shared = folder + "/shared";
    run.out = folder + "/" + out;
    run.settings.add("epochs=" + epochs);
    return run;
  }

  static void writes_tables() {
    table(4096).write().mode("overwrite").parquet(folder + "/train.parquet");
    table(1024).write().mode("overwrite").parquet(folder + "/test.parquet");
  }

  static void fits_transforms_saves_and_loads_in_a_pipeline() throws Exception {
    Dataset<Row> data = table(4096).drop("features", "label");
    PipelineStage[] stages = {
        new StringIndexer().setInputCol("name").setOutputCol("label").setStringOrderType("alphabetAsc"),
        new VectorAssembler().setInputCols(names().toArray(new String[0])).setOutputCol("features"),
        estimator("pipeline").setSettings(new String[] {"epochs=3"}).setPredictionCol("found")};
    Pipeline pipeline = new Pipeline().setStages(stages);
    pipeline.write().overwrite().save(folder + "/saved-pipeline");
    PipelineModel model = Pipeline.load(folder + "/saved-pipeline").fit(data);
    Dataset<Row> seen = model.transform(table(1000).drop("features", "label"));
    double accuracy = new MulticlassClassificationEvaluator().setPredictionCol("found").setMetricName("accuracy").evaluate(seen);
    check(accuracy > 0.8, accuracy);
    model.write().overwrite().save(folder + "/saved-model");
    List<Row> again = PipelineModel.load(folder + "/saved-model").transform(table(1000).drop("features", "label")).orderBy("id").collectAsList();
    List<Row> first = seen.orderBy("id").collectAsList();
    check(first.equals(again) && first.size() == 1000, "other rows after loading");
    sameNumbersAsTheProgram(first);
  }

  /** The program itself, over all rows in one file. */
  static void sameNumbersAsTheProgram(List<Row> rows) throws Exception {
    Path file = folder.resolve("rows.npz");
    Columns flat = new Columns(rows.get(0).schema(), names().toArray(new String[0]), null, null, null, false);
    Field[] fields = flat.open(folder, false);
    for (Row row : rows) flat.add(row, fields);
    Columns.finish(fields);
    Columns.write(fields, Files.newOutputStream(file));
    List<String> lines = Program.run(program, "predict", folder + "/pipeline/model.safetensors", file.toString(), "--json");
    ObjectMapper json = new ObjectMapper();
    for (int i = 0; i < rows.size(); ++i) {
      JsonNode answer = json.readTree(lines.get(i));
      List<Double> expected = new ArrayList<>();
      for (JsonNode value : answer.get("probabilities")) expected.add(value.asDouble());
      check(rows.get(i).getList(rows.get(i).fieldIndex("found_values")).equals(expected), rows.get(i) + " " + answer);
      check(rows.get(i).<Double>getAs("found") == answer.get("class").asDouble(), rows.get(i) + " " + answer);
    }
  }

  static void names_of_classes_and_parameters() {
    PerigeeEstimator estimator = estimator("names").setLabelCol("name").setFeaturesCols(names().toArray(new String[0]));
    for (String name : new String[] {"job", "featuresCols", "workers", "settings", "shape"})
      check(estimator.explainParams().contains(name + ": "), estimator.explainParams());
    PerigeeModel model = estimator.fit(table(512), new ParamMap().put(estimator.settings(), new String[] {"epochs=1"}));
    check(model.parent().uid().equals(estimator.uid()) && model.run().end.path("epochs").asInt(1) == 1, model.run().end);
    List<String> seen = model.transform(table(512)).select("prediction").distinct().collectAsList().stream().map(r -> r.getString(0)).collect(Collectors.toList());
    check(Arrays.asList("up", "down").containsAll(seen), seen);
  }

  /** The executors of this application alone: others may run on this machine. */
  static List<ProcessHandle> executors() {
    String url = ":" + spark.sparkContext().getConf().get("spark.driver.port");
    return ProcessHandle.allProcesses().filter(process -> {
      try {
        String line = new String(Files.readAllBytes(Paths.get("/proc/" + process.pid() + "/cmdline"))).replace('\0', ' ');
        return line.contains("CoarseGrainedExecutorBackend --driver-url") && line.contains(url + " ");
      } catch (IOException gone) {
        return false;
      }
    }).collect(Collectors.toList());
  }

  static void a_killed_executor_costs_its_task_alone() throws Exception {
    AtomicReference<ProcessHandle> killed = new AtomicReference<>();
    List<String> kinds = new ArrayList<>();
    Run run = run("killed", 20);
    run.minWorkers = 2;  // however fast the machine is, the run is not over before the task's second worker joins
    run.onEvent = event -> {
      kinds.add(event.path("event").asText());
      if (!event.path("event").asText().equals("step") || event.path("workers").asInt() != 2 || killed.get() != null) return;
      killed.set(executors().get(0));
      killed.get().destroyForcibly();
    };
    run.train(spark);
    List<Integer> attempts = run.attempts.values().stream().sorted().collect(Collectors.toList());
    check(killed.get() != null && attempts.equals(Arrays.asList(0, 1)), run.attempts);
    check(kinds.stream().filter("worker_joined"::equals).count() == 3, kinds.stream().filter(k -> k.startsWith("worker")).collect(Collectors.toList()));
  }

  /** No folder is shared: the tasks keep their partitions. spark_jar_test.py compares the bits. */
  static void an_estimator_keeps_data_resident() throws Exception {
    PerigeeEstimator estimator = estimator("resident-ml").setData("resident").setTest(table(1024)).setSettings(new String[] {"epochs=3"});
    PerigeeModel model = estimator.setShared(folder + "/of-the-driver").fit(table(4096));
    check(model.run().attempts.size() == 2 && model.run().end.path("test").path("accuracy").asDouble() > 0.8, model.run().end);
    JsonNode parts = new ObjectMapper().readTree(folder.resolve("resident-ml/job.json").toFile()).path("data");
    check(parts.path("at").asText().equals("partitions") && parts.at("/train/sources/1/name").asText().equals("train/1"), parts);
    check(Paths.get(parts.at("/test/file").asText()).startsWith(folder.resolve("of-the-driver")), parts);
    check(model.transform(table(100)).filter("prediction = label").count() > 80, "predictions");
  }

  static void a_killed_executor_brings_its_partition_back() throws Exception {
    AtomicReference<ProcessHandle> killed = new AtomicReference<>();
    Run run = run("resident-killed", 20);
    run.data = "resident";
    run.minWorkers = 2;
    run.onEvent = event -> {
      if (!event.path("event").asText().equals("step") || event.path("workers").asInt() != 2 || killed.get() != null) return;
      killed.set(executors().get(0));
      killed.get().destroyForcibly();
    };
    run.train(spark);
    List<Integer> attempts = run.attempts.values().stream().sorted().collect(Collectors.toList());
    check(killed.get() != null && attempts.equals(Arrays.asList(0, 1)), run.attempts);
  }

  static void rows_that_change_when_they_are_computed_again_are_refused() throws Exception {
    UserDefinedFunction other = functions.udf((Long id) -> (float) Math.random(), DataTypes.FloatType).asNondeterministic();
    Run run = run("changing", 2);
    run.data = "resident";
    run.train = table(512).withColumn("f7", other.apply(functions.col("id"))).withColumn("features", functions.array(columns()));
    refused("has other rows than when the run began", () -> run.train(spark));
    run.out = folder + "/kept";
    run.train = run.train.persist();
    try {
      run.train(spark);
    } finally {
      run.train.unpersist();
    }
  }

  static void a_cancelled_job_leaves_a_checkpoint() throws Exception {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(spark.sparkContext());
    context.setJobGroup("perigee", "to be cancelled");
    Run run = run("cancelled", 20000);
    Thread canceller = new Thread(() -> context.cancelJobGroup("perigee"));
    run.onEvent = event -> {
      if (event.path("event").asText().equals("epoch") && canceller.getState() == Thread.State.NEW) canceller.start();
    };
    try {
      refused("with resume it goes on", () -> run.train(spark));
    } finally {
      context.clearJobGroup();
    }
    try (Stream<Path> files = Files.list(folder.resolve("cancelled/checkpoints"))) {
      check(files.anyMatch(file -> file.toString().endsWith(".safetensors")), "no checkpoint");
    }
  }

  interface Call {
    Object call() throws Exception;
  }

  static void refused(String text, Call call) throws Exception {
    try {
      call.call();
    } catch (PerigeeException | org.apache.spark.SparkException error) {
      check(error.getMessage().contains(text), error);
      return;
    }
    throw new AssertionError("not refused: " + text);
  }

  static void mistakes_are_named() throws Exception {
    PerigeeEstimator none = estimator("none");
    refused("setJob says what to train", () -> new PerigeeEstimator().fit(table(8)));
    refused("there is no column 'feature'; the columns are id, f0", () -> none.copy(new ParamMap()).setFeaturesCol("feature").fit(table(8)));
    refused("has no rows", () -> none.fit(table(8).filter("id < 0")));
    refused("data 'rezident': it is export", () -> estimator("none").setData("rezident").fit(table(8)));
    refused("has no rows", () -> estimator("none").setData("resident").setTest(table(8).filter("id < 0")).fit(table(8)));
    refused("rows have no value; drop or fill them", () -> none.fit(table(8).withColumn("features", functions.expr("if(id = 7, null, features)"))));
    refused("lists of different lengths: 8 and 2", () -> none.fit(table(8).coalesce(1).withColumn("features", functions.expr("if(id = 7, array(1f, 2f), features)"))));
    refused("a row has 8 numbers; the shape asks for 784", () -> estimator("none").setShape(new int[] {1, 28, 28}).fit(table(8)));
    refused("is no class", () -> none.fit(table(8).withColumn("label", functions.lit(0.5))));
    refused("expected numbers, an array or a vector of them, or bytes", () -> estimator("none").setFeaturesCol("name").fit(table(8)));
    refused("unknown key 'rate'", () -> estimator("none").setSettings(new String[] {"optimizer.rate=1"}).fit(table(512)));
    refused("cannot start '/no/perigee'", () -> estimator("none").setProgram("/no/perigee").fit(table(8)));
  }
}
