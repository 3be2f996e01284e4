"""What is reloaded while clients are served: the policy, certificates, and the ConfigMaps that a policy comes from."""
