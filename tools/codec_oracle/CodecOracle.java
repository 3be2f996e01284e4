import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with the classes that Kafka generates from its schemas, and says what it found.
 *
 * Each line of the input is "name version hex", for example "HeartbeatRequest 4 0267...". Each is answered by one
 * line: "ok hex json" with the bytes as Kafka writes the message again and the message as Kafka prints it, or
 * "refused" with the reason.
 */
public final class CodecOracle {
    private static final String PACKAGE = "org.apache.kafka.common.message.";

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
        try {
            Class<?> type = messageClass(name);
            Message message = (Message) type.getDeclaredConstructor().newInstance();
            if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
                return "refused: no such version";
            }
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            message.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                return "refused: " + buffer.remaining() + " bytes left over";
            }
            return "ok " + HexFormat.of().formatHex(write(message, version)) + " " + json(type, message, version);
        } catch (ClassNotFoundException error) {
            return "refused: no such message";
        } catch (ReflectiveOperationException | RuntimeException error) {
            return "refused: " + error;
        }
    }

    /** Requests, responses and headers are generated with "Data" behind their names, embedded messages without. */
    private static Class<?> messageClass(String name) throws ClassNotFoundException {
        try {
            return Class.forName(PACKAGE + name + "Data");
        } catch (ClassNotFoundException error) {
            return Class.forName(PACKAGE + name);
        }
    }

    private static byte[] write(Message message, short version) {
        var cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static JsonNode json(Class<?> type, Message message, short version) throws ReflectiveOperationException {
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        return (JsonNode) converter.getMethod("write", type, short.class).invoke(null, message, version);
    }
}
