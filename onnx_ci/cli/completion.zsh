#compdef onnx-ci
# made by: onnx-ci completion zsh
_onnx_ci() {
    if (( CURRENT == 2 )); then
        local -a commands=(
@DESCRIBED@
        )
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words; (( CURRENT-- ))
    case $command in
@OPTIONS@
    esac
}
if [ "$funcstack[1]" = "_onnx_ci" ] || [ "$funcstack[1]" = "_onnx-ci" ]; then
    _onnx_ci "$@"
else
    compdef _onnx_ci onnx-ci
fi
