"""What is reloaded while clients are served: the policy, and the ConfigMaps that a policy comes from."""
