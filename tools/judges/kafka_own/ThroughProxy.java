import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import kafka.api.IntegrationTestHarness;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Starts a proxy in front of a test's brokers, and gives the test's clients its address. */
public class ThroughProxy implements BeforeTestExecutionCallback, AfterTestExecutionCallback {
    private Process proxy;

    @Override
    public void beforeTestExecution(ExtensionContext context) throws Exception {
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
}
