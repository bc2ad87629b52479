"""Settings of the service that attaches MCP servers (environment prefix SEARCHBUS_)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, SecretStr, field_validator

from searchbus_runtime import ServiceSettings, data_folder
from searchbus_runtime.files import damage
from searchbus_runtime.pins import PinFile
from searchbus_runtime.settings import each_value, read_settings

from .auth.keys import Sealer, ServiceIdentity, key_from_text
from .declare.attach_file import FILE_NAME, PINS_NAME, AttachFile
from .declare.servers import own_folders

if TYPE_CHECKING:
    from .auth.credentials import Credentials

LOGINS_NAME = "attach-logins.json"


class AttachSettings(ServiceSettings):
    """Settings of the service that attaches MCP servers."""

    attach_file: Path | None = None
    """The attached servers: TOML, or the `mcpServers` JSON of a desktop host. Default: attach.toml
    in the data folder."""
    # Calls only wait here; each server has a limit of its own.
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] = 2048
    """Calls at the same time to all servers; each server has a limit of its own."""
    attach_poll_s: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    """Time between two reads of a server's list, less or more by a fifth."""
    attach_grace_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = 86_400.0
    """How long the last list of a server that is away stays listed."""

    attach_vault_key: Annotated[SecretStr | None, each_value(key_from_text)] = None
    """Seals the sign-ins: 32 bytes in base64. Without it nobody can sign in."""
    attach_login_host: str = "127.0.0.1"
    """Address on which the pages listen where people sign in to servers."""
    attach_login_port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """Port of the pages where people sign in to servers."""
    attach_login_url: Annotated[str, Field(pattern=r"^(https?://[^?#]*[^/?#])?$")] = ""
    """Address of these pages as browsers reach it. Default: the port on 127.0.0.1."""
    attach_client_metadata_url: Annotated[
        str, Field(pattern=r"^(https://[^/?#@]+/[^?#]*\{server\}[^?#]*)?$")
    ] = ""
    """Address of the client metadata documents, which are the client's ids, with `{server}` in the
    place of a server's name. Default: servers/{server}/client.json below ATTACH_LOGIN_URL, where
    that is https."""
    attach_identity_key: SecretStr | None = None
    """Private key (P-256, PEM) that states callers in token exchange."""
    attach_identity_issuer: str = "searchbus"
    """`iss` of these statements."""

    @field_validator("attach_identity_key")
    @classmethod
    def _identity_key_can_be_used(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None:
            ServiceIdentity(key.get_secret_value(), "")
        return key

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.data_dir or data_folder()

    @property
    def file(self) -> Path:
        """The file of attached servers."""
        return self.attach_file or self.folder / FILE_NAME

    @property
    def pins(self) -> Path:
        """The file of approved definitions."""
        return self.folder / PINS_NAME

    @property
    def logins(self) -> Path:
        """The file of sign-ins."""
        return self.folder / LOGINS_NAME

    @property
    def own_paths(self) -> tuple[Path, ...]:
        """Its file of servers, and the folders of data and secrets."""
        return (self.folder, *own_folders(), self.file)

    @property
    def login_address(self) -> str:
        """The address of the pages where people sign in; empty where there are none."""
        if self.attach_login_url or self.attach_login_port is None:
            return self.attach_login_url
        return f"http://127.0.0.1:{self.attach_login_port}"

    @property
    def client_documents(self) -> str:
        """The address of the client metadata documents, with `{server}`; empty where no https
        address leads here."""
        public = self.attach_login_url.startswith("https://")
        default = f"{self.attach_login_url}/servers/{{server}}/client.json" if public else ""
        return self.attach_client_metadata_url or default

    @property
    def identity(self) -> ServiceIdentity | None:
        """What states callers; None where there is no key."""
        if self.attach_identity_key is None:
            return None
        return ServiceIdentity(
            self.attach_identity_key.get_secret_value(), self.attach_identity_issuer
        )

    def credentials(self) -> Credentials:
        """The credentials of all attached servers."""
        # Imported here: the SDK, which list and show do not need, takes longer than all the rest.
        from .auth.credentials import Credentials
        from .auth.login import Logins
        from .auth.provider import AuthHttp
        from .auth.vault import Vault

        http = AuthHttp()
        logins = None
        key = self.secret("attach_vault_key", key_from_text)
        if key is not None and self.login_address:
            vault = Vault(self.logins, Sealer(key))
            logins = Logins(http, vault, self.login_address, self.client_documents)
        return Credentials(http, logins=logins, identity=self.identity)


def files(folder: Path) -> tuple[str, bool, str]:
    """Whether the files of attached servers in a data folder can be read."""
    settings = read_settings(AttachSettings, "attach", data_dir=folder)
    faults = damage(AttachFile(settings.file).read_all, PinFile(settings.pins).read)
    return "attached servers", not faults, " ".join(faults) or "files in order"
