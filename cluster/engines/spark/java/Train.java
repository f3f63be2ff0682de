package org.perigee.spark;

import java.util.Arrays;
import java.util.Iterator;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** The front door of spark-submit: spark-submit --class org.perigee.spark.Train perigee-spark.jar JOB [options]. */
public final class Train {
  private static final String USAGE = String.join("\n",
      "spark-submit --class org.perigee.spark.Train perigee-spark.jar JOB [options] [-- options of perigee train]",
      "  --train, --test PATH   tables that take the place of the job's own data: hdfs://, s3a://, a folder of all machines",
      "  --format NAME          of the tables: parquet (the default), csv, json, orc, libsvm, ...; else the path's ending says it",
      "  --features A,B         columns with the inputs: numbers, arrays, vectors or bytes (features)",
      "  --label NAME           numbers, or texts, which become classes (label); none: without",
      "  --shape 1,28,28        of one example, where it is not a flat list",
      "  --workers N            tasks that train; the default is spark.default.parallelism through spark.task.cpus",
      "  --min-workers N        wait until so many train, also when some are lost (1)",
      "  --set KEY=VALUE        a value of the job; may be given several times",
      "  --data WAY             export (the default): files in --shared; resident: each task keeps its partition and serves it",
      "  --shared FOLDER        that the driver and all executors see, for the exported data (spark-data); resident: the driver's",
      "  --out, --resume FOLDER the run's, on the driver's machine",
      "  --program PATH         perigee on every machine (perigee)",
      "  --model PATH           also saves a model of Spark ML there");

  private Train() {}

  private static final class Usage extends RuntimeException {
    private static final long serialVersionUID = 1;

    Usage(String message) {
      super(message);
    }
  }

  private final Run run = new Run();
  private String trainPath, testPath, format, model;

  public static void main(String[] words) throws Exception {
    Train train = new Train();
    try {
      train.parse(Arrays.asList(words).iterator());
    } catch (Usage wrong) {
      System.err.println(wrong.getMessage() + "\n\n" + USAGE);
      System.exit(2);
    }
    SparkSession spark = SparkSession.builder().appName("perigee " + train.run.job).getOrCreate();
    try {
      train.train(spark);
    } catch (PerigeeException error) {
      System.err.println(error.getMessage());
      spark.stop();
      System.exit(1);
    }
    spark.stop();
  }

  private void train(SparkSession spark) throws Exception {
    run.train = read(spark, trainPath);
    run.test = read(spark, testPath);
    run.train(spark);
    System.out.println("model " + run.folder + "/model.safetensors");
    if (model != null) new PerigeeModel(run).write().overwrite().save(model);
  }

  private Dataset<Row> read(SparkSession spark, String path) {
    if (path == null) return null;
    String ending = path.replaceFirst("/+$", "").replaceFirst(".*\\.", "");
    String kind = format != null ? format : Arrays.asList("csv", "json", "orc", "libsvm").contains(ending) ? ending : "parquet";
    return spark.read().format(kind).option("header", kind.equals("csv")).option("inferSchema", kind.equals("csv")).load(path);
  }

  private void parse(Iterator<String> words) {
    while (words.hasNext()) {
      String word = words.next();
      if (word.equals("--")) words.forEachRemaining(run.arguments::add);
      else if (word.startsWith("--")) option(word, words);
      else if (run.job == null) run.job = word;
      else throw new Usage("'" + word + "': a job is given already, " + run.job);
    }
    if (run.job == null) throw new Usage("a script or a job is needed, for example models/lenet.lua");
    if (testPath != null && trainPath == null) throw new Usage("--test takes the place of the job's own data together with --train");
  }

  private void option(String name, Iterator<String> words) {
    if (name.equals("--help")) throw new Usage("Trains a job of Perigee on the executors of a Spark cluster.");
    if (!words.hasNext()) throw new Usage(name + " needs a value");
    String value = words.next();
    switch (name) {
      case "--train": trainPath = value; break;
      case "--test": testPath = value; break;
      case "--format": format = value; break;
      case "--features": run.features = value.split(","); break;
      case "--label": run.label = value.equals("none") ? null : value; break;
      case "--shape": run.shape = Arrays.stream(value.split(",")).mapToInt(part -> number(name, part)).toArray(); break;
      case "--workers": run.workers = number(name, value); break;
      case "--min-workers": run.minWorkers = number(name, value); break;
      case "--set": run.settings.add(value); break;
      case "--data": run.data = value; break;
      case "--shared": run.shared = value; break;
      case "--out": run.out = value; break;
      case "--resume": run.resume = value; break;
      case "--program": run.program = value; break;
      case "--model": model = value; break;
      default: throw new Usage("there is no option " + name);
    }
  }

  private static int number(String name, String text) {
    try {
      int found = Integer.parseInt(text);
      if (found > 0) return found;
    } catch (NumberFormatException noNumber) {
      // said below
    }
    throw new Usage(name + " " + text + ": expected a whole number above 0");
  }
}
