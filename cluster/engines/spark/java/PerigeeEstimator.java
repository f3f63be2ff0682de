package org.perigee.spark;

import java.util.Arrays;
import java.util.UUID;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.param.IntArrayParam;
import org.apache.spark.ml.param.IntParam;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.param.StringArrayParam;
import org.apache.spark.ml.util.DefaultParamsReader;
import org.apache.spark.ml.util.DefaultParamsWriter;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWritable;
import org.apache.spark.ml.util.MLWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Trains a job of Perigee on a DataFrame, as a stage of a Pipeline of Spark ML. */
public final class PerigeeEstimator extends Estimator<PerigeeModel> implements MLWritable {
  private static final long serialVersionUID = 1;

  private final String uid;
  private final Param<String> job, labelCol, predictionCol, data, shared, out, resume, program;
  private final StringArrayParam featuresCols, settings, arguments;
  private final IntArrayParam shape;
  private final IntParam workers, minWorkers;
  private transient Dataset<Row> test;

  public PerigeeEstimator() {
    this("perigeeEstimator_" + UUID.randomUUID());
  }

  public PerigeeEstimator(String uid) {
    this.uid = uid;
    job = text("job", "a script, or a job in JSON or YAML, on the driver's machine", null);
    featuresCols = new StringArrayParam(this, "featuresCols", "columns with the inputs: numbers, arrays, vectors or bytes");
    setDefault(featuresCols, new String[] {"features"});
    labelCol = text("labelCol", "numbers, or texts, which become classes; empty: none", "label");
    predictionCol = text("predictionCol", "the column for the prediction; NAME_values has all values", "prediction");
    shape = new IntArrayParam(this, "shape", "of one example; empty: a flat list");
    setDefault(shape, new int[0]);
    workers = new IntParam(this, "workers", "how many tasks train; 0: spark.default.parallelism through spark.task.cpus");
    setDefault(workers, (Object) 0);
    minWorkers = new IntParam(this, "minWorkers", "wait until so many train, also when some are lost");
    setDefault(minWorkers, (Object) 1);
    settings = new StringArrayParam(this, "settings", "values of the job, as of perigee train --set: optimizer.lr=0.01");
    setDefault(settings, new String[0]);
    arguments = new StringArrayParam(this, "arguments", "more options of perigee train");
    setDefault(arguments, new String[0]);
    data = text("data", "export: files in a folder that all machines see; resident: each task keeps its partition and serves it", "export");
    shared = text("shared", "a folder that the driver and all executors see, for the exported data; resident: the driver's", "spark-data");
    out = text("out", "the run folder, on the driver's machine; empty: runs/NAME-TIME", "");
    resume = text("resume", "a run to go on with; empty: none", "");
    program = text("program", "the program perigee on every machine", "perigee");
  }

  private Param<String> text(String name, String about, String usual) {
    Param<String> made = new Param<>(this, name, about);
    if (usual != null) setDefault(made, usual);
    return made;
  }

  @Override
  public String uid() {
    return uid;
  }

  // Spark ML finds a stage's parameters by these methods.
  public Param<String> job() { return job; }
  public Param<String> labelCol() { return labelCol; }
  public Param<String> predictionCol() { return predictionCol; }
  public Param<String> data() { return data; }
  public Param<String> shared() { return shared; }
  public Param<String> out() { return out; }
  public Param<String> resume() { return resume; }
  public Param<String> program() { return program; }
  public StringArrayParam featuresCols() { return featuresCols; }
  public StringArrayParam settings() { return settings; }
  public StringArrayParam arguments() { return arguments; }
  public IntArrayParam shape() { return shape; }
  public IntParam workers() { return workers; }
  public IntParam minWorkers() { return minWorkers; }

  public PerigeeEstimator setJob(String path) { return with(job, path); }
  public PerigeeEstimator setFeaturesCol(String name) { return with(featuresCols, new String[] {name}); }
  public PerigeeEstimator setFeaturesCols(String[] names) { return with(featuresCols, names); }
  public PerigeeEstimator setLabelCol(String name) { return with(labelCol, name); }
  public PerigeeEstimator setPredictionCol(String name) { return with(predictionCol, name); }
  public PerigeeEstimator setShape(int[] lengths) { return with(shape, lengths); }
  public PerigeeEstimator setWorkers(int count) { return with(workers, (Object) count); }
  public PerigeeEstimator setMinWorkers(int count) { return with(minWorkers, (Object) count); }
  public PerigeeEstimator setSettings(String[] values) { return with(settings, values); }
  public PerigeeEstimator setArguments(String[] words) { return with(arguments, words); }
  public PerigeeEstimator setData(String way) { return with(data, way); }
  public PerigeeEstimator setShared(String folder) { return with(shared, folder); }
  public PerigeeEstimator setOut(String folder) { return with(out, folder); }
  public PerigeeEstimator setResume(String folder) { return with(resume, folder); }
  public PerigeeEstimator setProgram(String path) { return with(program, path); }

  /** Data to test on after each epoch; it is no parameter, and is not saved. */
  public PerigeeEstimator setTest(Dataset<Row> rows) {
    test = rows;
    return this;
  }

  private <T> PerigeeEstimator with(Param<T> param, T value) {
    set(param, value);
    return this;
  }

  @Override
  public PerigeeModel fit(Dataset<?> rows) {
    if (!isSet(job)) throw new PerigeeException("PerigeeEstimator: setJob says what to train, for example models/lenet.lua");
    Run run = new Run();
    run.job = getOrDefault(job);
    run.train = rows.toDF();
    run.test = test;
    run.features = getOrDefault(featuresCols);
    run.label = orNull(labelCol);
    run.shape = getOrDefault(shape).length > 0 ? getOrDefault(shape) : null;
    run.workers = (Integer) getOrDefault(workers);
    run.minWorkers = (Integer) getOrDefault(minWorkers);
    run.settings.addAll(Arrays.asList(getOrDefault(settings)));
    run.arguments.addAll(Arrays.asList(getOrDefault(arguments)));
    run.data = getOrDefault(data);
    run.shared = getOrDefault(shared);
    run.out = orNull(out);
    run.resume = orNull(resume);
    run.program = getOrDefault(program);
    try {
      run.train(rows.sparkSession());
      return new PerigeeModel(run).setPredictionCol(getOrDefault(predictionCol)).setParent(this);
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new PerigeeException("PerigeeEstimator: " + error.getMessage(), error);
    }
  }

  private String orNull(Param<String> param) {
    String value = getOrDefault(param);
    return value.isEmpty() ? null : value;
  }

  @Override
  public StructType transformSchema(StructType schema) {
    for (String name : getOrDefault(featuresCols)) Columns.require(Arrays.asList(schema.fieldNames()), name);
    String label = orNull(labelCol);
    if (label != null) Columns.require(Arrays.asList(schema.fieldNames()), label);
    boolean named = label != null && schema.apply(label).dataType().equals(DataTypes.StringType);
    return PerigeeModel.withPrediction(schema, getOrDefault(predictionCol), named);
  }

  @Override
  public PerigeeEstimator copy(ParamMap extra) {
    return copyValues(new PerigeeEstimator(uid).setTest(test), extra);
  }

  @Override
  public MLWriter write() {
    return new DefaultParamsWriter(this);
  }

  public static MLReader<PerigeeEstimator> read() {
    return new DefaultParamsReader<>();
  }

  public static PerigeeEstimator load(String path) {
    return read().load(path);
  }
}
