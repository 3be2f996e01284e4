import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Reads embedded messages of Kafka Connect with its own classes, and says what they found.
 *
 * Questions and answers are those of CodecOracle. The bytes begin with the version of the protocol, as in JoinGroup and
 * SyncGroup. They are written again by the schema that the classes read with, since the classes themselves sort.
 */
public final class ConnectOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            output.println(answer(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
            output.flush();
        }
    }

    private static String answer(String name, short version, byte[] bytes) {
        boolean eager = version == 0;
        try {
            if (name.equals("ConnectProtocolMetadata")) {
                Map<String, Object> found = eager
                    ? worker(ConnectProtocol.deserializeMetadata(ByteBuffer.wrap(bytes)))
                    : worker(IncrementalCooperativeConnectProtocol.deserializeMetadata(ByteBuffer.wrap(bytes)));
                return ok(found, bytes, eager
                    ? List.of(ConnectProtocol.CONFIG_STATE_V0)
                    : List.of(
                        IncrementalCooperativeConnectProtocol.CONFIG_STATE_V1,
                        IncrementalCooperativeConnectProtocol.ALLOCATION_V1));
            }
            Map<String, Object> found = eager
                ? eager(ConnectProtocol.deserializeAssignment(ByteBuffer.wrap(bytes)))
                : incremental(IncrementalCooperativeConnectProtocol.deserializeAssignment(ByteBuffer.wrap(bytes)));
            return ok(found, bytes, List.of(
                eager ? ConnectProtocol.ASSIGNMENT_V0 : IncrementalCooperativeConnectProtocol.ASSIGNMENT_V1));
        } catch (RuntimeException error) {
            return "refused: " + error.toString().lines().findFirst().orElse("");
        }
    }

    private static Map<String, Object> worker(ConnectProtocol.WorkerState state) {
        var found = new HashMap<String, Object>(Map.of("url", state.url(), "configOffset", state.offset()));
        if (state instanceof ExtendedWorkerState extended) {
            ExtendedAssignment running = extended.assignment();
            found.put("allocation", running == ExtendedAssignment.empty() ? null : incremental(running));
        }
        return found;
    }

    private static Map<String, Object> incremental(ExtendedAssignment assignment) {
        Map<String, Object> found = eager(assignment);
        found.put("revokedConnectors", assignment.revokedConnectors());
        found.put("revokedTasks", tasks(assignment.revokedTasks()));
        found.put("delay", assignment.delay());
        return found;
    }

    private static Map<String, Object> eager(ConnectProtocol.Assignment assignment) {
        return new HashMap<>(Map.of(
            "error", assignment.error(),
            "leader", assignment.leader(),
            "leaderUrl", assignment.leaderUrl(),
            "configOffset", assignment.offset(),
            "connectors", assignment.connectors(),
            "tasks", tasks(assignment.tasks())));
    }

    private static List<List<Object>> tasks(Collection<ConnectorTaskId> ids) {
        return ids.stream().map(id -> List.<Object>of(id.connector(), id.task())).toList();
    }

    private static String ok(Map<String, Object> found, byte[] bytes, List<Schema> schemas) {
        ByteBuffer read = ByteBuffer.wrap(bytes);
        ByteBuffer written = ByteBuffer.allocate(bytes.length + 64);
        written.putShort(read.getShort());
        for (Schema schema : schemas) {
            schema.write(written, schema.read(read));
        }
        JsonNode json = JSON.valueToTree(found);
        return "ok " + HexFormat.of().formatHex(written.array(), 0, written.position()) + " " + json;
    }
}
