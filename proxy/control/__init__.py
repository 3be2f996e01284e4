"""What people and a hook say about moves by steps: the listener for commands, and the hook's calls.

It is apart from the admin port, which changes nothing. :mod:`proxy.control.listener` takes connections,
:mod:`proxy.control.http_exchange` reads one request of each within bounds, :mod:`proxy.control.requests` makes a
command of it, and :mod:`proxy.control.command_runner` has the translation carry it out.
:mod:`proxy.control.hook_caller` asks the hook.
"""
