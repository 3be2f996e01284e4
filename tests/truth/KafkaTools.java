import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command line tools in one JVM. A line of standard input has a tool's main class and its arguments, separated
 * by tabs. The answer is the number of bytes that the tool printed, in a line of its own, and these bytes.
 *
 * <p>No tool describes the members of Connect groups. {@code classic BOOTSTRAP GROUP} prints what Kafka's own admin client
 * says of them: the group's state, and a line with the client id of each member.
 */
public final class KafkaTools {
    private static final class Exited extends RuntimeException {
    }

    public static void main(String[] unused) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            throw new Exited();
        });
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] command = line.split("\t");
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
            try {
                run(command);
            } catch (InvocationTargetException failure) {
                if (!(failure.getCause() instanceof Exited)) {
                    failure.getCause().printStackTrace();
                }
            }
            System.out.flush();
            answers.println(printed.size());
            printed.writeTo(answers);
            answers.flush();
        }
    }

    private static void run(String[] command) throws Exception {
        if (command[0].equals("classic")) {
            describeClassic(command[1], command[2]);
            return;
        }
        String[] arguments = Arrays.copyOfRange(command, 1, command.length);
        Class.forName(command[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
    }

    private static void describeClassic(String bootstrap, String group) throws Exception {
        try (Admin admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap))) {
            var described = admin.describeClassicGroups(List.of(group)).all().get().get(group);
            System.out.println(described.state());
            described.members().forEach(member -> System.out.println(member.clientId()));
        }
    }
}
