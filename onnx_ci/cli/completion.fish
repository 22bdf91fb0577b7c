# fish completion of onnx-ci, made by: onnx-ci completion fish
complete -c onnx-ci -n __fish_use_subcommand -l version -d 'print the version'
@OPTIONS@
