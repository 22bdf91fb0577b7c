# bash completion of onnx-ci, made by: onnx-ci completion bash
_onnx_ci() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="@COMMANDS@ --help --version"
    else
        case "${COMP_WORDS[1]} $before $word" in
@OPTIONS@
        esac
    fi
    if [ -n "$words" ]; then
        local IFS=$' \t\n'
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    fi
}
complete -o bashdefault -o default -F _onnx_ci onnx-ci
