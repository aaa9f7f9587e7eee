"""Attribution as a web service, for chatbots that are not written in Python.

`attribot_server.app.create_app` makes the application. The command `attribot-rag serve` runs it.
"""

__version__ = "0.1.0"
