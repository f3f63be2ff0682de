package org.perigee.spark;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** The program `perigee` as a child of this JVM, and the files that it is handed. */
final class Program {
  private Program() {}

  /** Reads a stream on a thread of its own, so that the child never waits for it. Each line is handed on; the last ones are kept. */
  static final class Reader extends Thread {
    private static final int KEPT = 20;
    private final InputStream stream;
    private final Consumer<String> onLine;
    private final ArrayDeque<String> last = new ArrayDeque<>();

    Reader(InputStream stream, Consumer<String> onLine) {
      super("perigee-output");
      this.stream = stream;
      this.onLine = onLine;
      setDaemon(true);
      start();
    }

    @Override
    public void run() {
      try (BufferedReader lines = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          synchronized (last) {
            if (last.size() == KEPT) last.removeFirst();
            last.addLast(line);
          }
          onLine.accept(line);
        }
      } catch (IOException ended) {
        // The child was killed while it wrote.
      }
    }

    String tail() throws InterruptedException {
      join(10_000);
      synchronized (last) {
        return String.join("\n", last);
      }
    }
  }

  /**
   * A child with `input` as its standard input. Linux ends a child with the thread that started it (`--parent`), so the caller stays until the
   * child's end.
   */
  static Process start(List<String> words, Map<String, String> environment, boolean oneStream, byte[] input) {
    ProcessBuilder builder = new ProcessBuilder(words).redirectErrorStream(oneStream);
    builder.environment().putAll(environment);
    Process child;
    try {
      child = builder.start();
    } catch (IOException error) {
      throw new PerigeeException(host() + " cannot start '" + words.get(0) + "' (" + error.getMessage()
          + "): install Perigee on every machine, or say with --program where it is", error);
    }
    try (OutputStream standardInput = child.getOutputStream()) {
      standardInput.write(input);
    } catch (IOException ended) {
      // The child ended at once; its exit code and its words say why.
    }
    return child;
  }

  /** The lines that a short call prints; PerigeeException of what it says when it fails. */
  static List<String> run(String program, List<String> words) throws InterruptedException {
    List<String> command = new ArrayList<>(Collections.singletonList(program));
    command.addAll(words);
    Process child = start(command, Collections.emptyMap(), false, new byte[0]);
    List<String> lines = new ArrayList<>();
    Reader errors = new Reader(child.getErrorStream(), line -> {});
    try {
      Reader output = new Reader(child.getInputStream(), lines::add);
      int code = child.waitFor();
      output.join();
      if (code != 0) throw new PerigeeException("perigee " + words.get(0) + ": exit code " + code + ": " + errors.tail().strip());
    } finally {
      child.destroy();
    }
    return lines;
  }

  static List<String> run(String program, String... words) throws InterruptedException {
    return run(program, Arrays.asList(words));
  }

  /** Asks a child to end, and ends it when it does not. */
  static void end(Process child) {
    child.destroy();
    try {
      if (child.waitFor(5, TimeUnit.SECONDS)) return;
    } catch (InterruptedException hurry) {
      Thread.currentThread().interrupt();
    }
    child.destroyForcibly();
  }

  static String parent() {
    return Long.toString(ProcessHandle.current().pid());
  }

  static String host() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (IOException unknown) {
      return "this machine";
    }
  }

  /** Whether the coordinator is there; it refuses once the run is over. */
  static boolean listens(String address) {
    int colon = address.lastIndexOf(':');
    String name = address.substring(0, colon).replaceAll("[\\[\\]]", "");
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress(name, Integer.parseInt(address.substring(colon + 1))), 10_000);
      return true;
    } catch (ConnectException refused) {
      return false;
    } catch (IOException error) {
      throw new PerigeeException(host() + " cannot reach the driver at " + address + " (" + error.getMessage()
          + "): spark.driver.host must be an address that executors reach, and no firewall between them", error);
    }
  }

  /** A folder that only this user opens. */
  static Path privateFolder() throws IOException {
    return Files.createTempDirectory("perigee-");
  }

  /**
   * The same for what a task keeps, among the files of the application: Spark removes them with it, also when the executor was killed.
   * Standalone, YARN and Kubernetes name that place each in its own way.
   */
  static Path scratchFolder() {
    try {
      for (String name : new String[] {"SPARK_EXECUTOR_DIRS", "LOCAL_DIRS", "SPARK_LOCAL_DIRS"}) {
        String place = System.getenv().getOrDefault(name, "").split("[:,]")[0];
        if (!place.isEmpty() && Files.isWritable(Paths.get(place))) return Files.createTempDirectory(Paths.get(place), "perigee-");
      }
      return privateFolder();
    } catch (IOException error) {
      throw new UncheckedIOException(host() + " cannot make a folder for the rows of a task", error);
    }
  }

  static Path privateFile(Path folder, String name, byte[] content) throws IOException {
    Path path = folder.resolve(name);
    Files.createFile(path, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    return Files.write(path, content);
  }

  static void remove(Path folder) {
    try (Stream<Path> files = Files.walk(folder)) {
      files.sorted(Collections.reverseOrder()).forEach(file -> file.toFile().delete());
    } catch (IOException | UncheckedIOException gone) {
      // A temporary folder that another program has removed.
    }
  }
}
