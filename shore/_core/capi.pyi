from shore._core.compression import Phi

ABI_VERSION: int
API: object

def phi_capsule(phi: Phi) -> object: ...
