"""Makes the vectors of searchbus's own tools: `python -m tests.search.shipped_vectors`.

Run it when a description, a title or an example of a tool has changed; a test says so. It starts a
stack on a new folder, and takes what that has embedded.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from searchbus_testing import Stack, watch_this_process
from searchbus_toolindex.embedding import load_tool_embedder
from searchbus_toolindex.vector_file import SHIPPED

QUIET_S = 10.0
"""Every service is indexed when no vector has come for so long."""


def main() -> None:
    """Write the file anew where a new folder needs other vectors."""
    watch_this_process()
    embedder = asyncio.run(load_tool_embedder())
    if not len(_embedded(embedder.dimensions)):
        print("nothing has changed")
        return
    np.savez(SHIPPED)  # none
    records = _embedded(embedder.dimensions)
    records = records[np.argsort([key.tobytes() for key in records["key"]])]
    np.savez(
        SHIPPED,
        **{
            f"{embedder.model}/keys": records["key"],
            # Half the bytes: a cosine differs by .0001 at most.
            f"{embedder.model}/vectors": records["vector"].astype(np.float16),
        },
    )
    print(f"{len(records)} vectors in {SHIPPED}")


def _embedded(dimensions: int) -> Any:
    """What a stack on a new folder embeds: records of its file of vectors."""
    record = np.dtype([("key", "V16"), ("vector", "<f4", (dimensions,))])
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder))
        stack.start()
        path = Path(folder) / "toolindex" / f"vectors-{dimensions}.bin"
        size_bytes = -1
        while (found := path.stat().st_size if path.exists() else 0) > size_bytes:
            size_bytes = found
            time.sleep(QUIET_S)
        records = np.fromfile(path, dtype=record) if path.exists() else np.zeros(0, record)
        stack.stop()
    return records


if __name__ == "__main__":
    main()
