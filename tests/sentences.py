"""What a command says when it fails."""


def error_sentence(printed: str) -> str:
    assert "Traceback" not in printed
    return printed[printed.rindex("Error: ") :].strip()
