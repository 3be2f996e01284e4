import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Prints embedded messages of Kafka Connect as its own classes write them: a name and hex digits on each line. */
public final class ConnectVectors {
    private static final String WORKER = "http://w2:8083/";
    private static final String LEADER = "http://w1:8083/";

    public static void main(String[] arguments) {
        ConnectProtocol.Assignment eager = new ConnectProtocol.Assignment(
            (short) 1, "leader-1", LEADER, 42, List.of("src"), List.of(new ConnectorTaskId("src", 0)));
        ExtendedAssignment incremental = new ExtendedAssignment(
            (short) 2, (short) 0, "leader-1", LEADER, 42,
            new ArrayList<>(List.of("src", "sink")),
            new ArrayList<>(List.of(
                new ConnectorTaskId("src", 0), new ConnectorTaskId("src", 1), new ConnectorTaskId("other", 3))),
            new ArrayList<>(List.of("old")),
            new ArrayList<>(List.of(new ConnectorTaskId("old", 0))),
            300_000);
        print("assignment 0", ConnectProtocol.serializeAssignment(eager));
        print("assignment 1", IncrementalCooperativeConnectProtocol.serializeAssignment(incremental, false));
        print("assignment 2", IncrementalCooperativeConnectProtocol.serializeAssignment(incremental, true));
        print("metadata 0", ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState(WORKER, 7)));
        print("metadata 1", IncrementalCooperativeConnectProtocol.serializeMetadata(
            new ExtendedWorkerState(WORKER, 7, null), false));
        print("metadata 2", IncrementalCooperativeConnectProtocol.serializeMetadata(
            new ExtendedWorkerState(WORKER, 7, incremental), true));
    }

    private static void print(String name, ByteBuffer written) {
        System.out.println(name + " " + HexFormat.of().formatHex(written.array(), 0, written.limit()));
    }
}
