"""Attribution as a web service, for chatbots that are not written in Python.

Needs the extra `serve`: `attribot_rag.serving.app.create_app` makes the application, the command
`attribot-rag serve` runs it.
"""
