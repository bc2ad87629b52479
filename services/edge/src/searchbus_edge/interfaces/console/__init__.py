"""The console: a page for people who run searchbus, `GET /console`.

| request below /console/api | answer |
| --- | --- |
| `GET me` | who the caller is, what it may do here, the settings that matter |
| `GET events` | what runs, live: an event stream (overview.py) |
| `GET catalogue`, `GET entry` | what the caller may use (catalogue.py) |
| `POST call`, `prompt`, `resource` | progress and result as an event stream (catalogue.py) |
| `POST search`, `POST judge` | tools, documents and the web; judgements (searching.py) |
| `GET traces`, `GET trace` | the stack's own traces (tracing.py) |
| `GET, POST attached` | attached servers: state, log, changes (attached.py) |
| `GET documents`, `document`, `passages`, `POST documents/…` | documents (documents.py) |
| `GET connect`, `GET, POST keys` … | what a client needs (connecting.py) |
| `GET, POST held` | held definitions, approved or refused |

Calls take the way of every interface, `HttpCalls`. What is about others needs the role
`searchbus-operator` (access.py). Without "console" in HTTP_INTERFACES nothing of it is there.
"""
