import com.sun.tools.attach.VirtualMachine;

import java.util.Hashtable;
import java.util.Map;

import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Prints the attributes of a Java process' MBeans, one a line: the attribute, the properties of the name but its type, and
 * the value, between tabs. Its arguments are the process id and a pattern of names, such as
 * kafka.server:type=group-coordinator-metrics,*. The process needs no option: it is asked to open a port on loopback.
 */
public final class JmxReader {
    private JmxReader() {
    }

    public static void main(String[] arguments) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(arguments[0]);
        String address;
        try {
            address = machine.startLocalManagementAgent();
        } finally {
            machine.detach();
        }
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName name : server.queryNames(new ObjectName(arguments[1]), null)) {
                Map<String, String> properties = new Hashtable<>(name.getKeyPropertyList());
                properties.remove("type");
                for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                    Object value = server.getAttribute(name, attribute.getName());
                    System.out.println(attribute.getName() + "\t" + properties + "\t" + value);
                }
            }
        }
    }
}
