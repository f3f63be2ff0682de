package org.perigee.spark;

/** The words of `perigee` itself when it failed, or of what is wrong with the data or the cluster. */
public class PerigeeException extends RuntimeException {
  private static final long serialVersionUID = 1;

  public PerigeeException(String message) {
    super(message);
  }

  public PerigeeException(String message, Throwable cause) {
    super(message, cause);
  }
}
