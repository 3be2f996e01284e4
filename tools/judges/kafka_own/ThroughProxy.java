import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import kafka.api.IntegrationTestHarness;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestWatcher;

/**
 * Starts a proxy in front of a test's brokers, and gives the test's clients its address. Writes what became of each
 * test: JUnit's reports fail all tests of a class that finds a thread left over at its end.
 */
public class ThroughProxy implements BeforeTestExecutionCallback, AfterTestExecutionCallback, TestWatcher {
    private Process proxy;
    private long started;

    @Override
    public void beforeTestExecution(ExtensionContext context) throws Exception {
        started = System.nanoTime();
        String command = System.getProperty("judges.proxy", "");
        if (command.isEmpty() || !(context.getRequiredTestInstance() instanceof IntegrationTestHarness harness)) {
            return;
        }
        List<String> line = new ArrayList<>(List.of(command.split("\t")));
        line.add(harness.bootstrapServers(harness.bootstrapServers$default$1()));
        proxy = new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String bootstrap = new BufferedReader(new InputStreamReader(proxy.getInputStream())).readLine();
        if (bootstrap == null) {
            throw new IllegalStateException("the proxy did not start");
        }
        harness.consumerConfig().put("bootstrap.servers", bootstrap);
        harness.producerConfig().put("bootstrap.servers", bootstrap);
    }

    @Override
    public void afterTestExecution(ExtensionContext context) throws Exception {
        if (proxy != null) {
            proxy.getOutputStream().close();
            if (!proxy.waitFor(20, TimeUnit.SECONDS)) {
                proxy.destroyForcibly();
            }
            proxy = null;
        }
    }

    @Override
    public void testSuccessful(ExtensionContext context) {
        write("passed", context, "");
    }

    @Override
    public void testFailed(ExtensionContext context, Throwable cause) {
        write("failed", context, String.valueOf(cause.getMessage()));
    }

    @Override
    public void testAborted(ExtensionContext context, Throwable cause) {
        write("skipped", context, "");
    }

    private void write(String outcome, ExtensionContext context, String reason) {
        double seconds = (System.nanoTime() - started) / 1e9;
        String line = String.join("\t", outcome, Double.toString(seconds), context.getDisplayName(),
            reason.replaceAll("\\s+", " ")) + "\n";
        try {
            Files.writeString(Path.of(System.getProperty("judges.results")), line, StandardOpenOption.CREATE,
                StandardOpenOption.APPEND);
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }
}
