package org.perigee.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.resource.ResourceInformation;
import org.apache.spark.sql.Row;

/**
 * A task of Spark that trains: runs `perigee worker --join` until the run is over. Rows that it is given it keeps and serves to the others. Gives
 * its index and how often Spark had started it before.
 */
final class Work implements Function2<Integer, Iterator<Row>, Iterator<int[]>> {
  private static final long serialVersionUID = 1;
  private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(60);

  private final String program, address;
  private final byte[] secret;
  private final int threads;
  private final Columns columns;  // of its rows; null: it has none

  Work(String program, String address, byte[] secret, int threads, Columns columns) {
    this.program = program;
    this.address = address;
    this.secret = secret;
    this.threads = threads;
    this.columns = columns;
  }

  @Override
  public Iterator<int[]> call(Integer index, Iterator<Row> rows) throws Exception {
    TaskContext context = TaskContext.get();
    int[] done = {index, context.attemptNumber()};
    if (!Program.listens(address)) return Collections.singletonList(done).iterator();  // it was over before Spark came here
    String name = "spark-" + index + "." + context.taskAttemptId();
    List<String> words = new ArrayList<>(Arrays.asList(program, "worker", name, "--join", address, "--secret", "-"));
    words.addAll(Arrays.asList("--threads", Integer.toString(threads), "--parent", Program.parent()));
    if (columns == null) {
      train(name, words, context);
    } else {
      try (Archive archive = new Archive(index, rows, columns)) {
        if (archive.rows > 0) words.addAll(Arrays.asList("--partition", Resident.name(index) + "=" + Resident.source(archive, columns)));
        train(name, words, context);
      }
    }
    return Collections.singletonList(done).iterator();
  }

  private void train(String name, List<String> words, TaskContext context) throws Exception {
    Process child = null;
    try {
      child = Program.start(words, devices(context), true, secret);
      Program.Reader output = new Program.Reader(child.getInputStream(), line -> {});
      while (!child.waitFor(100, TimeUnit.MILLISECONDS)) stopIfKilled(context);
      if (child.exitValue() != 0 && Program.listens(address))
        throw new PerigeeException("perigee worker " + name + " on " + Program.host() + ": exit code " + child.exitValue() + "\n" + output.tail());
      // A worker that was sent away ends well, too: the task is done only when the run is, else Spark starts it again.
      for (long begun = System.nanoTime(); Program.listens(address); Thread.sleep(200)) {
        stopIfKilled(context);
        if (System.nanoTime() - begun > PATIENCE_NS) throw new PerigeeException("perigee worker " + name + " left while the run goes on");
      }
    } finally {
      if (child != null) Program.end(child);
    }
  }

  /** Spark does not interrupt the thread of a cancelled job's task unless it is asked to. */
  private static void stopIfKilled(TaskContext context) {
    if (context.isInterrupted()) throw new TaskKilledException();
  }

  private static Map<String, String> devices(TaskContext context) {
    ResourceInformation gpus = context.resourcesJMap().get("gpu");
    Map<String, String> environment = new HashMap<>();
    if (gpus != null) environment.put("CUDA_VISIBLE_DEVICES", String.join(",", gpus.addresses()));
    return environment;
  }
}
