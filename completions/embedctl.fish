# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_embedctl_global_optspecs
    string join \n q/quiet v/verbose progress= log-format= color= offline cache-dir= config= no-config h/help V/version
end

function __fish_embedctl_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_embedctl_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_embedctl_using_subcommand
    set -l cmd (__fish_embedctl_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c embedctl -n "__fish_embedctl_needs_command" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_needs_command" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_needs_command" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_needs_command" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_needs_command" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_needs_command" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_needs_command" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_needs_command" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_needs_command" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_needs_command" -s V -l version -d 'Print version'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "serve" -d 'Serve a model\'s vectors or scores over HTTP, as embed and score compute them'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "download" -d 'Download and verify models from the Hugging Face Hub'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "cache" -d 'List or remove what is kept on this machine: models, packed weights, kernels, compiled engines'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "info" -d 'Describe a model, and the providers that run it on this machine'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "export" -d 'Write a model\'s network as an ONNX file'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "inspect" -d 'Check files of vectors: their origin, their health, and whether they can be mixed'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "search" -d 'Find the rows of an output that are nearest to a query'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "compare" -d 'Show whether two outputs find the same rows'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "verify-model" -d 'Compare a model\'s vectors with reference vectors from sentence-transformers'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "devices" -d 'Show hardware, runtimes and working providers, and why the others do not work'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "bench" -d 'Measure the speed of a model on this machine, and its bottleneck'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "config" -d 'Show the settings in effect and the source of each'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "completions" -d 'Print a shell\'s completion script'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "man" -d 'Print the manual page (roff)'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "embed" -d 'Embed the records of files or of standard input'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "score" -d 'Score pairs of texts with a reranker, or single texts with a classifier'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "tokens" -d 'Show how long texts are in tokens, what a run would cut, and what it would take'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l listen -d 'Address and port, or unix:PATH for a socket; 127.0.0.1 is reached by this machine alone' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l host -d 'Address without a port, as other servers have it; with --port in place of --listen [default: 127.0.0.1]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l port -d 'Port, with --host in place of --listen [default: 8080]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l like -d 'Output of embed or score whose vectors or scores the server\'s must mix with: a file, a folder of parts, or an address' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l verify -d 'Embed N rows of --like again before the server starts, and compare; FILE must hold their texts' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l api-key-file -d 'File with a key per line; requests must send one as \'Authorization: Bearer KEY\'' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l served-model-name -d 'Name of the model in requests and answers, in place of its id; may be given several times, answers have the first' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l allow-origin -d 'Origin of web pages whose scripts may use the server, such as https://example.org, or * for all; may be given several times' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l allow-host -d 'Host name that is accepted beside localhost and addresses by a server on a loopback address without keys; may be given several times' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l threads -d 'Threads that run the model [default: one per usable core, two per device]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l max-body-bytes -d 'Largest request body [default: 8MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l max-inputs -d 'Most inputs per request [default: 2048]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l max-queue -d 'Most inputs in the server, waiting or running; further requests are refused with 429 [default: 4096]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l timeout -d 'Longest time from a request\'s arrival to its answer; once a signal stops the server, the time that requests under way are given [default: 60]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l client-timeout -d 'Longest time for a client to send a request, or to read its answer; idle connections are closed after it [default: 30]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -s m -l model -d 'Hub id (org/name or org/name@revision) or a folder [default: that of --like, or sentence-transformers/all-MiniLM-L6-v2]' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l model-file -d 'ONNX file of the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l precision -d 'Precision of the arithmetic, or of the model\'s ONNX file [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l weights -d 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]' -r -f -a "safetensors\t''
onnx\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l max-length -d 'Most tokens per record; longer records are truncated and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l prompt -d 'Text to put before every record' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l prompt-name -d 'Name of one of the model\'s prompts, such as query' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l pooling -d 'Pooling mode; several, separated by commas, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l normalize -d 'Whether to scale vectors to length 1; overrides the model\'s files' -r -f -a "true\t''
false\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l dimensions -l truncate-dim -d 'Components of a vector to keep (Matryoshka models)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l vectors -d 'Kinds of vectors: dense, sparse, or multi, where the model\'s files leave it open [default: dense]' -r -f -a "dense\t''
sparse\t''
multi\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l task -d 'Role of the texts, query or document; or a task of the model\'s own (embedctl info MODEL lists them)' -r -f -a "query\t''
document\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l max-active-dims -d 'Entries of a sparse vector to keep: those of the greatest magnitude [default: as in the model\'s files]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l pool-factor -d 'Keep about one in N vectors of a document\'s tokens, where each token has one (a number of at least 1)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l min-cosine -d 'Least cosine to fp32 for bf16, int16 and int8 of the native engine [default: int16 0.999, others 0.99]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l device -d 'Device numbers of the provider, separated by commas, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l ort-lib -d 'ONNX Runtime library, or its folder; no other library is tried' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l softmax -d 'Turn the scores of a model with several labels into probabilities, as score --softmax does'
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l no-cache -d 'Neither read nor keep packed weights in the user\'s cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l model-file -d 'ONNX file of the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l precision -d 'Precision of the arithmetic, or of the model\'s ONNX file [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l weights -d 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]' -r -f -a "safetensors\t''
onnx\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l local-dir -d 'Write the files into this folder, under their own names, instead of the cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l lock -d 'Write a lock file with the commits and hashes of the downloaded models' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l locked -d 'Download exactly the files recorded by --lock, or fail' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l all -d 'Download all files of the repository'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l list -d 'List the model\'s weight files and their sizes, and download nothing'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l check -d 'Verify downloaded models: name every damaged or missing file, and download it again'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l json -d 'Print one JSON object per model to standard output: paths, commit, sizes, hashes'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l kind -d 'Kinds to list or remove: models, weights, kernels, engines; several separated by commas [default: all; remove needs names or kinds]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l dry-run -d 'With remove: show what would be removed, and remove nothing'
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l json -d 'Print JSON'
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand cache" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l model-file -d 'ONNX file of the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l precision -d 'Precision of the arithmetic, or of the model\'s ONNX file [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l weights -d 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]' -r -f -a "safetensors\t''
onnx\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l ort-lib -d 'ONNX Runtime library, or its folder; no other library is tried' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l json -d 'Print one JSON object instead of the table'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l precision -d 'Precision of the graph; its output is always fp32' -r -f -a "fp32\t''
fp16\t''
bf16\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l task -d 'Task whose adapter is merged, for a model with adapters for tasks in its checkpoint' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l pooling -d 'Pooling mode; several, separated by commas, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l max-length -d 'Most tokens per record; longer records are truncated and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l pooled -d 'Write finished vectors (sentence_embedding), not token states (last_hidden_state)'
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l force -l overwrite -d 'Replace OUT.onnx and its weights if they exist'
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l rejects -d 'File of rejected records written with FILE, to check its hash' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l verify -d 'Embed N rows of FILE again and compare; exit with 1 if they differ' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l input -d 'The embedded input, if FILE does not hold the texts' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l csv-delimiter -d 'Character that separates CSV fields, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l csv-quote -d 'Quote around CSV fields; none: quotes are ordinary characters [default: \'"\']' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l csv-escape -d 'Escape character of CSV, such as \'\\\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l csv-null -d 'CSV field that is null, such as \'\\N\', NULL or \'\' [default: no field is null]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s m -l model -d 'The model, if it is not at the place in the provenance' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s i -l input-format -d 'Format of all inputs [default: by extension; text for standard input]' -r -f -a "text\t'A line is a record'
file\t'A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML'
jsonl\t'A line is a JSON object'
json\t'An array of JSON objects, or a JSON object on each line'
openai-batch\t'A batch file of OpenAI\'s API: custom_id, and the texts in body.input'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l same -d 'Exit with 1 unless the vectors of all files can be mixed'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l json -d 'Print one JSON object'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s k -l top -l top-k -d 'Rows to find for a query' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l queries -d 'File of queries, in an input format of embed: each line of a text file is one' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l like-row -d 'Find the rows nearest to the row with this id, which is left out itself' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l where -d 'Refused: rows are not filtered here' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s o -l output -d 'File for the hits [default: standard output]' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s f -l output-format -d 'Format of the hits [default: by the extension of PATH]' -r -f -a "parquet\t''
arrow\t''
jsonl\t''
trec\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s m -l model -d 'The model, if it is not at the place in the provenance' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l prompt -d 'Text to put before every query' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l prompt-name -d 'Name of the model\'s prompt for queries [default: query, where the model has it]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l task -d 'Task of the queries, for models with tasks of their own' -r -f -a "query\t''
document\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l vectors -d 'Kind of vectors to compare, where rows have several: dense, sparse or multi' -r -f -a "dense\t''
sparse\t''
multi\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s i -l input-format -d 'Format of all inputs [default: by extension; text for standard input]' -r -f -a "text\t'A line is a record'
file\t'A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML'
jsonl\t'A line is a JSON object'
json\t'An array of JSON objects, or a JSON object on each line'
openai-batch\t'A batch file of OpenAI\'s API: custom_id, and the texts in body.input'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l csv-delimiter -d 'Character that separates CSV fields, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l csv-quote -d 'Quote around CSV fields; none: quotes are ordinary characters [default: \'"\']' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l csv-escape -d 'Escape character of CSV, such as \'\\\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l csv-null -d 'CSV field that is null, such as \'\\N\', NULL or \'\' [default: no field is null]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l json -d 'Print one JSON object per hit'
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l force -d 'Replace PATH if it exists'
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand search" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l with -d 'Forms of A to compare it with: a type, a width as 256d, or both as 256d+int8; separated by commas' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -s k -d 'Numbers of nearest rows to compare' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l sample -d 'Rows whose neighbours are compared; the same ones each time' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l queries -d 'File of queries in place of rows, in an input format of embed; each output\'s own model embeds them' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l differing -d 'Rows to list whose neighbours differ most' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l plot -d 'Also plot the shares: FILE.svg, replaced if it exists' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l vectors -d 'Kind of vectors to compare, where rows have several: dense, sparse or multi' -r -f -a "dense\t''
sparse\t''
multi\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -s i -l input-format -d 'Format of all inputs [default: by extension; text for standard input]' -r -f -a "text\t'A line is a record'
file\t'A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML'
jsonl\t'A line is a JSON object'
json\t'An array of JSON objects, or a JSON object on each line'
openai-batch\t'A batch file of OpenAI\'s API: custom_id, and the texts in body.input'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l csv-delimiter -d 'Character that separates CSV fields, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l csv-quote -d 'Quote around CSV fields; none: quotes are ordinary characters [default: \'"\']' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l csv-escape -d 'Escape character of CSV, such as \'\\\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l csv-null -d 'CSV field that is null, such as \'\\N\', NULL or \'\' [default: no field is null]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l json -d 'Print one JSON object instead of tables'
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l against -d 'Reference vectors, one row per text: .npy, .npz, an output of embed, or an address (s3://, gs://, az://, https://, hf://)' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l texts -d 'Texts of the reference vectors, in an input format of embed [default: VECTORS with the extension .jsonl or .txt]' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s i -l input-format -d 'Format of all inputs [default: by extension; text for standard input]' -r -f -a "text\t'A line is a record'
file\t'A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML'
jsonl\t'A line is a JSON object'
json\t'An array of JSON objects, or a JSON object on each line'
openai-batch\t'A batch file of OpenAI\'s API: custom_id, and the texts in body.input'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l csv-delimiter -d 'Character that separates CSV fields, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l csv-quote -d 'Quote around CSV fields; none: quotes are ordinary characters [default: \'"\']' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l csv-escape -d 'Escape character of CSV, such as \'\\\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l csv-null -d 'CSV field that is null, such as \'\\N\', NULL or \'\' [default: no field is null]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l model-file -d 'ONNX file of the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l precision -d 'Precision of the arithmetic, or of the model\'s ONNX file [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l weights -d 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]' -r -f -a "safetensors\t''
onnx\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l max-length -d 'Most tokens per record; longer records are truncated and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l prompt -d 'Text to put before every record' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l prompt-name -d 'Name of one of the model\'s prompts, such as query' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l pooling -d 'Pooling mode; several, separated by commas, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l normalize -d 'Whether to scale vectors to length 1; overrides the model\'s files' -r -f -a "true\t''
false\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l dimensions -l truncate-dim -d 'Components of a vector to keep (Matryoshka models)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l vectors -d 'Kinds of vectors: dense, sparse, or multi, where the model\'s files leave it open [default: dense]' -r -f -a "dense\t''
sparse\t''
multi\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l task -d 'Role of the texts, query or document; or a task of the model\'s own (embedctl info MODEL lists them)' -r -f -a "query\t''
document\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l max-active-dims -d 'Entries of a sparse vector to keep: those of the greatest magnitude [default: as in the model\'s files]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l pool-factor -d 'Keep about one in N vectors of a document\'s tokens, where each token has one (a number of at least 1)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l min-cosine -d 'Least cosine to fp32 for bf16, int16 and int8 of the native engine [default: int16 0.999, others 0.99]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l device -d 'Device numbers of the provider, separated by commas, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l ort-lib -d 'ONNX Runtime library, or its folder; no other library is tried' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l query-field -l query-column -d 'Field that holds the query of a pair: the reference holds scores of pairs' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l no-cache -d 'Neither read nor keep packed weights in the user\'s cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l scores -d 'The reference holds scores of single texts'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l json -d 'Print one JSON object instead of lines'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l require -d 'Exit with 1 and the reason unless these providers work; separated by commas' -r -f -a "native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l ort-lib -d 'ONNX Runtime library, or its folder; no other library is tried' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l json -d 'Print one JSON object instead of the table'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l corpus -d 'Built-in texts [default: mixed]' -r -f -a "short\t''
long\t''
mixed\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l input -d 'Your own records instead: any input of embed, also addresses; may be repeated; \'-\': standard input' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l csv-delimiter -d 'Character that separates CSV fields, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l csv-quote -d 'Quote around CSV fields; none: quotes are ordinary characters [default: \'"\']' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l csv-escape -d 'Escape character of CSV, such as \'\\\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l csv-null -d 'CSV field that is null, such as \'\\N\', NULL or \'\' [default: no field is null]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l query-field -l query-column -d 'Field that holds the query of a pair, for rerankers [default: a built-in query for every 16 records]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l max-record-bytes -d 'Largest record size, such as 512KiB; larger records are left out [default: 4MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s i -l input-format -d 'Format of all inputs [default: by extension; text for standard input]' -r -f -a "text\t'A line is a record'
file\t'A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML'
jsonl\t'A line is a JSON object'
json\t'An array of JSON objects, or a JSON object on each line'
openai-batch\t'A batch file of OpenAI\'s API: custom_id, and the texts in body.input'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s m -l model -d 'Hub id (org/name or org/name@revision) or a folder; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l model-file -d 'ONNX file of the model, such as onnx/model_fp16.onnx; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l precision -d 'Precisions of the model\'s ONNX files, separated by commas [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l vectors -d 'Kinds of vectors: dense, sparse, or multi, where the model\'s files leave it open [default: dense]' -r -f -a "dense\t''
sparse\t''
multi\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l task -d 'Role of the texts, query or document; or a task of the model\'s own (embedctl info MODEL lists them)' -r -f -a "query\t''
document\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l pooling -d 'Pooling mode; several, separated by commas, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l max-length -d 'Most tokens per record; longer records are truncated and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s p -l provider -d 'Execution providers, separated by commas, or auto; each is measured' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l device -d 'Device numbers of the provider, separated by commas, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l ort-lib -d 'ONNX Runtime library, or its folder; no other library is tried' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l batch-tokens -d 'Most tokens per batch, with padding; several, separated by commas, are all measured' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l batch-size -d 'Most records per batch [default: depends on the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l window -d 'Records read ahead and sorted by length, up to 16 MiB of text [default: 8192]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l threads -d 'Threads that run the model; several numbers, separated by commas, are all measured' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l duration -d 'Most seconds of sampling per configuration, without warm-up' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l min-cosine -d 'Least cosine to fp32 for bf16, int16 and int8 of the native engine' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l samples -d 'Take exactly this number of samples of each configuration, for tests' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l plot -d 'Also plot the results: FILE.svg, replaced if it exists' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l baseline -d 'Compare with the --json output of an earlier run' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l max-regression -d 'Loss of rows per second at which the comparison with --baseline fails' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l json -d 'Print one JSON object instead of tables'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l all -d 'Show default values, too'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l json -d 'Print one JSON object'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l dir -d 'Write the scripts for all shells into this folder instead' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l dir -d 'Write all pages into this folder instead' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s f -l output-format -l format -d 'Output format [default: by the extension of OUT; jsonl for \'-\']' -r -f -a "parquet\t'Columns id, kept fields and embedding'
arrow\t'The same columns as an Arrow IPC file (Feather); a stream if OUT is not a file'
arrows\t'The same columns as an Arrow IPC stream'
npy\t'A matrix, with the row ids in a file beside it'
npz\t'A sparse matrix of compressed rows (scipy.sparse.load_npz), with the row ids in a file beside it'
jsonl\t'A JSON object for each row'
jsonl.gz\t'The same, compressed with gzip'
jsonl.zst\t'The same, compressed with zstd'
pgcopy\t'Rows for PostgreSQL\'s COPY ... WITH (FORMAT binary), vectors in pgvector\'s types'
fbin\t'A matrix: rows and width as u32, then float32 (DiskANN, cuVS, usearch), with its rows\' ids beside it'
i8bin\t'The same with int8'
u8bin\t'The same with uint8'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l vector-type -d 'List type of the vectors in Parquet and Arrow [default: fixed; list in Parquet with --on-error null]' -r -f -a "fixed\t'Fixed-size lists'
list\t'Variable-size lists, for readers without fixed-size lists (Spark)'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l embedding-field -l embedding-column -d 'Name of the vector column [default: embedding]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l part-rows -d 'Records per part, if OUT is a folder [default: as many as fit in 128 MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l shard -d 'Process one share of the input, such as 3/8: eight runs, 1/8 to 8/8, write one folder together' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l reuse -d 'Copy the vectors of texts found in an earlier output, and embed only the others' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s i -l input-format -d 'Format of all inputs [default: by extension; text for standard input]' -r -f -a "text\t'A line is a record'
file\t'A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML'
jsonl\t'A line is a JSON object'
json\t'An array of JSON objects, or a JSON object on each line'
openai-batch\t'A batch file of OpenAI\'s API: custom_id, and the texts in body.input'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l csv-delimiter -d 'Character that separates CSV fields, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l csv-quote -d 'Quote around CSV fields; none: quotes are ordinary characters [default: \'"\']' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l csv-escape -d 'Escape character of CSV, such as \'\\\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l csv-null -d 'CSV field that is null, such as \'\\N\', NULL or \'\' [default: no field is null]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l text-template -d 'Build the text from several fields: \'{title}\\n{body}\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l id-field -d 'Field or column that holds the id; nested as a.b; none: no ids, and no column of them' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l id-type -d 'Type of the id column' -r -f -a "kept\t'As in the input: the type of a table\'s column; in text, CSV and JSONL strings'
string\t'Strings; integers as their digits'
int\t'64-bit integers'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l keep -d 'Input fields to copy to the output: NAME or NAME:TYPE, separated by commas; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l limit -d 'Read only the first N records; 0: all [default: all; 1,000 with --dry-run]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l sample -d 'Embed a random sample of N records, in input order' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l seed -d 'Seed of --sample' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s m -l model -d 'Hub id (org/name or org/name@revision) or a folder' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l model-file -d 'ONNX file of the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l precision -d 'Precision of the arithmetic, or of the model\'s ONNX file [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l weights -d 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]' -r -f -a "safetensors\t''
onnx\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l max-length -d 'Most tokens per record; longer records are truncated and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l prompt -d 'Text to put before every record' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l prompt-name -d 'Name of one of the model\'s prompts, such as query' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l pooling -d 'Pooling mode; several, separated by commas, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l normalize -d 'Whether to scale vectors to length 1; overrides the model\'s files' -r -f -a "true\t''
false\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l dimensions -l truncate-dim -d 'Components of a vector to keep (Matryoshka models)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l vectors -d 'Kinds of vectors: dense, sparse, or multi, where the model\'s files leave it open [default: dense]' -r -f -a "dense\t''
sparse\t''
multi\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l task -d 'Role of the texts, query or document; or a task of the model\'s own (embedctl info MODEL lists them)' -r -f -a "query\t''
document\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l max-active-dims -d 'Entries of a sparse vector to keep: those of the greatest magnitude [default: as in the model\'s files]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l pool-factor -d 'Keep about one in N vectors of a document\'s tokens, where each token has one (a number of at least 1)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l dtype -d 'Type of the vector components [default: f32; int8 for i8bin, uint8 for u8bin]' -r -f -a "f32\t''
f16\t''
int8\t''
uint8\t''
binary\t''
ubinary\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l calibration -d 'File with the range of each component, for quantization to int8 and uint8' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk -d 'Split texts that are too long for the model into chunks, one row each' -r -f -a "tokens\t'Split between words: as many tokens per chunk as fit'
sentences\t'Split between sentences: as many whole sentences per chunk as fit'
paragraphs\t'Split at blank lines: as many whole paragraphs per chunk as fit'
markdown\t'Split Markdown at headings, then between blocks; a heading stays with its text'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk-tokens -d 'Most tokens per chunk [default: the model\'s limit]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk-overlap -d 'Tokens that a chunk repeats from the end of the previous one [default: 0]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l min-cosine -d 'Least cosine to fp32 for bf16, int16 and int8 of the native engine [default: int16 0.999, others 0.99]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l device -d 'Device numbers of the provider, separated by commas, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l ort-lib -d 'ONNX Runtime library, or its folder; no other library is tried' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l batch-tokens -d 'Most tokens per batch, with padding [default: depends on the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l batch-size -d 'Most records per batch [default: depends on the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l window -d 'Records read ahead and sorted by length, up to 16 MiB of text [default: 8192]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l threads -d 'Threads that run the model [default: one per usable core, two per device]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l max-record-bytes -d 'Largest record size, such as 512KiB; larger records are rejected [default: 4MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l on-error -d 'How to handle a record that cannot be embedded' -r -f -a "fail\t'Stop the run'
skip\t'Leave the record out, count it, and continue'
null\t'Write a row with a null vector and the reason in the column embedding_error, count it, and continue; pgcopy leaves out rows that PostgreSQL cannot hold'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l rejects -d 'JSONL file for skipped records: the whole record with file, line and reason' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l stats -d 'JSON file for the summary, written during the run and at its end' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l stats-interval -d 'Seconds between two updates of --stats' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s o -l output -d 'Output file or object (s3://, gs://, az://), or folder/ for parts; \'-\': standard output' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l force -l overwrite -d 'Replace OUT if it exists'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l resume -d 'Resume an earlier run of the same command'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l dry-run -d 'Read the first 1,000 records (or --limit), describe the run, and write nothing'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l uuid -d 'Add the column uuid: a UUID of each row, the same in every run'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l streams -d 'Answer one Arrow stream after another, each with its own schema, until standard input closes'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l source-columns -d 'Add the columns file and line with the place of each record in the input'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l sparse-tokens -d 'Write sparse vectors as maps from tokens to weights, as Elasticsearch and OpenSearch take them'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l late -d 'Late chunking: run each text whole, and pool the states of each chunk\'s tokens'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk-text -d 'Add the column chunk_text with the text of each chunk'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk-id -d 'Add the column chunk_id, a key of each chunk: ID#CHUNK, such as 17#0'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l no-cache -d 'Neither read nor keep packed weights in the user\'s cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l fail-on-empty -d 'Fail and write nothing if there is no record to embed'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -s f -l output-format -l format -d 'Output format [default: by the extension of OUT; jsonl for \'-\']' -r -f -a "parquet\t'Columns id, kept fields and embedding'
arrow\t'The same columns as an Arrow IPC file (Feather); a stream if OUT is not a file'
arrows\t'The same columns as an Arrow IPC stream'
npy\t'A matrix, with the row ids in a file beside it'
npz\t'A sparse matrix of compressed rows (scipy.sparse.load_npz), with the row ids in a file beside it'
jsonl\t'A JSON object for each row'
jsonl.gz\t'The same, compressed with gzip'
jsonl.zst\t'The same, compressed with zstd'
pgcopy\t'Rows for PostgreSQL\'s COPY ... WITH (FORMAT binary), vectors in pgvector\'s types'
fbin\t'A matrix: rows and width as u32, then float32 (DiskANN, cuVS, usearch), with its rows\' ids beside it'
i8bin\t'The same with int8'
u8bin\t'The same with uint8'"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l part-rows -d 'Records per part, if OUT is a folder [default: as many as fit in 128 MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l shard -d 'Process one share of the input, such as 3/8: eight runs, 1/8 to 8/8, write one folder together' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l reuse -d 'Copy the vectors of texts found in an earlier output, and embed only the others' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -s i -l input-format -d 'Format of all inputs [default: by extension; text for standard input]' -r -f -a "text\t'A line is a record'
file\t'A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML'
jsonl\t'A line is a JSON object'
json\t'An array of JSON objects, or a JSON object on each line'
openai-batch\t'A batch file of OpenAI\'s API: custom_id, and the texts in body.input'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l csv-delimiter -d 'Character that separates CSV fields, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l csv-quote -d 'Quote around CSV fields; none: quotes are ordinary characters [default: \'"\']' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l csv-escape -d 'Escape character of CSV, such as \'\\\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l csv-null -d 'CSV field that is null, such as \'\\N\', NULL or \'\' [default: no field is null]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l text-template -d 'Build the text from several fields: \'{title}\\n{body}\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l id-field -d 'Field or column that holds the id; nested as a.b; none: no ids, and no column of them' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l id-type -d 'Type of the id column' -r -f -a "kept\t'As in the input: the type of a table\'s column; in text, CSV and JSONL strings'
string\t'Strings; integers as their digits'
int\t'64-bit integers'"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l keep -d 'Input fields to copy to the output: NAME or NAME:TYPE, separated by commas; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l limit -d 'Read only the first N records; 0: all [default: all; 1,000 with --dry-run]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l seed -d 'Seed of --sample' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l model-file -d 'ONNX file of the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l weights -d 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]' -r -f -a "safetensors\t''
onnx\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l max-length -d 'Most tokens per record; longer records are truncated and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l prompt -d 'Text to put before every record' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l prompt-name -d 'Name of one of the model\'s prompts, such as query' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l query-field -l query-column -d 'Field or column that holds the query of a pair; nested as a.b [default: texts are scored alone]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l top-labels -d 'Add the columns top_labels and top_scores: the N highest scores, highest first' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l min-cosine -d 'Least cosine to fp32 for bf16, int16 and int8 of the native engine [default: int16 0.999, others 0.99]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l device -d 'Device numbers of the provider, separated by commas, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l ort-lib -d 'ONNX Runtime library, or its folder; no other library is tried' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l batch-tokens -d 'Most tokens per batch, with padding [default: depends on the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l batch-size -d 'Most records per batch [default: depends on the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l window -d 'Records read ahead and sorted by length, up to 16 MiB of text [default: 8192]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l threads -d 'Threads that run the model [default: one per usable core, two per device]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l max-record-bytes -d 'Largest record size, such as 512KiB; larger records are rejected [default: 4MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l on-error -d 'How to handle a record that cannot be embedded' -r -f -a "fail\t'Stop the run'
skip\t'Leave the record out, count it, and continue'
null\t'Write a row with a null vector and the reason in the column embedding_error, count it, and continue; pgcopy leaves out rows that PostgreSQL cannot hold'"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l rejects -d 'JSONL file for skipped records: the whole record with file, line and reason' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l stats -d 'JSON file for the summary, written during the run and at its end' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l stats-interval -d 'Seconds between two updates of --stats' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -s o -l output -d 'Output file or object (s3://, gs://, az://), or folder/ for parts; \'-\': standard output' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -s m -l model -d 'Hub id (org/name or org/name@revision) or a folder' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l embedding-field -l embedding-column -d 'Name of the column of scores [default: score, or scores]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l vector-type -d 'List type of several scores in Parquet and Arrow [default: fixed; list in Parquet with --on-error null]' -r -f -a "fixed\t'Fixed-size lists'
list\t'Variable-size lists, for readers without fixed-size lists (Spark)'"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l sample -d 'Score a random sample of N records, in input order' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l precision -d 'Precision of the arithmetic, or of the model\'s ONNX file [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l force -l overwrite -d 'Replace OUT if it exists'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l resume -d 'Resume an earlier run of the same command'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l dry-run -d 'Read the first 1,000 records (or --limit), describe the run, and write nothing'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l uuid -d 'Add the column uuid: a UUID of each row, the same in every run'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l streams -d 'Answer one Arrow stream after another, each with its own schema, until standard input closes'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l source-columns -d 'Add the columns file and line with the place of each record in the input'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l softmax -d 'Turn several scores of a record into probabilities, whose sum is 1'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l no-cache -d 'Neither read nor keep packed weights in the user\'s cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l fail-on-empty -d 'Fail and write nothing if there is no record to embed'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand score" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -s f -l output-format -l format -d 'Output format [default: by the extension of OUT; jsonl for \'-\']' -r -f -a "parquet\t'Columns id, kept fields and embedding'
arrow\t'The same columns as an Arrow IPC file (Feather); a stream if OUT is not a file'
arrows\t'The same columns as an Arrow IPC stream'
npy\t'A matrix, with the row ids in a file beside it'
npz\t'A sparse matrix of compressed rows (scipy.sparse.load_npz), with the row ids in a file beside it'
jsonl\t'A JSON object for each row'
jsonl.gz\t'The same, compressed with gzip'
jsonl.zst\t'The same, compressed with zstd'
pgcopy\t'Rows for PostgreSQL\'s COPY ... WITH (FORMAT binary), vectors in pgvector\'s types'
fbin\t'A matrix: rows and width as u32, then float32 (DiskANN, cuVS, usearch), with its rows\' ids beside it'
i8bin\t'The same with int8'
u8bin\t'The same with uint8'"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l vector-type -d 'List type of the vectors in Parquet and Arrow [default: fixed; list in Parquet with --on-error null]' -r -f -a "fixed\t'Fixed-size lists'
list\t'Variable-size lists, for readers without fixed-size lists (Spark)'"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l embedding-field -l embedding-column -d 'Name of the vector column [default: embedding]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l part-rows -d 'Records per part, if OUT is a folder [default: as many as fit in 128 MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l shard -d 'Process one share of the input, such as 3/8: eight runs, 1/8 to 8/8, write one folder together' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l reuse -d 'Copy the vectors of texts found in an earlier output, and embed only the others' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -s i -l input-format -d 'Format of all inputs [default: by extension; text for standard input]' -r -f -a "text\t'A line is a record'
file\t'A file is a record, with its name as id; of folders, .txt, .md, .markdown, .rst and HTML'
jsonl\t'A line is a JSON object'
json\t'An array of JSON objects, or a JSON object on each line'
openai-batch\t'A batch file of OpenAI\'s API: custom_id, and the texts in body.input'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l csv-delimiter -d 'Character that separates CSV fields, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l csv-quote -d 'Quote around CSV fields; none: quotes are ordinary characters [default: \'"\']' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l csv-escape -d 'Escape character of CSV, such as \'\\\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l csv-null -d 'CSV field that is null, such as \'\\N\', NULL or \'\' [default: no field is null]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l text-template -d 'Build the text from several fields: \'{title}\\n{body}\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l id-field -d 'Field or column that holds the id; nested as a.b; none: no ids, and no column of them' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l id-type -d 'Type of the id column' -r -f -a "kept\t'As in the input: the type of a table\'s column; in text, CSV and JSONL strings'
string\t'Strings; integers as their digits'
int\t'64-bit integers'"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l keep -d 'Input fields to copy to the output: NAME or NAME:TYPE, separated by commas; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l limit -d 'Read only the first N records; 0: all [default: all; 1,000 with --dry-run]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l sample -d 'Embed a random sample of N records, in input order' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l seed -d 'Seed of --sample' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -s m -l model -d 'Hub id (org/name or org/name@revision) or a folder' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l model-file -d 'ONNX file of the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l precision -d 'Precision of the arithmetic, or of the model\'s ONNX file [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l weights -d 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]' -r -f -a "safetensors\t''
onnx\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l max-length -d 'Most tokens per record; longer records are truncated and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l prompt -d 'Text to put before every record' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l prompt-name -d 'Name of one of the model\'s prompts, such as query' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l pooling -d 'Pooling mode; several, separated by commas, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l normalize -d 'Whether to scale vectors to length 1; overrides the model\'s files' -r -f -a "true\t''
false\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l dimensions -l truncate-dim -d 'Components of a vector to keep (Matryoshka models)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l vectors -d 'Kinds of vectors: dense, sparse, or multi, where the model\'s files leave it open [default: dense]' -r -f -a "dense\t''
sparse\t''
multi\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l task -d 'Role of the texts, query or document; or a task of the model\'s own (embedctl info MODEL lists them)' -r -f -a "query\t''
document\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l max-active-dims -d 'Entries of a sparse vector to keep: those of the greatest magnitude [default: as in the model\'s files]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l pool-factor -d 'Keep about one in N vectors of a document\'s tokens, where each token has one (a number of at least 1)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l dtype -d 'Type of the vector components [default: f32; int8 for i8bin, uint8 for u8bin]' -r -f -a "f32\t''
f16\t''
int8\t''
uint8\t''
binary\t''
ubinary\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l calibration -d 'File with the range of each component, for quantization to int8 and uint8' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l chunk -d 'Split texts that are too long for the model into chunks, one row each' -r -f -a "tokens\t'Split between words: as many tokens per chunk as fit'
sentences\t'Split between sentences: as many whole sentences per chunk as fit'
paragraphs\t'Split at blank lines: as many whole paragraphs per chunk as fit'
markdown\t'Split Markdown at headings, then between blocks; a heading stays with its text'"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l chunk-tokens -d 'Most tokens per chunk [default: the model\'s limit]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l chunk-overlap -d 'Tokens that a chunk repeats from the end of the previous one [default: 0]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -s p -l provider -d 'Execution providers in order of preference, or auto' -r -f -a "auto\t''
native\t''
cpu\t''
cuda\t''
tensorrt\t''
tensorrt-rtx\t''
directml\t''
coreml\t''
openvino\t''
webgpu\t''
xnnpack\t''
migraphx\t''
rten\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l min-cosine -d 'Least cosine to fp32 for bf16, int16 and int8 of the native engine [default: int16 0.999, others 0.99]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l device -d 'Device numbers of the provider, separated by commas, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l ort-lib -d 'ONNX Runtime library, or its folder; no other library is tried' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l batch-tokens -d 'Most tokens per batch, with padding [default: depends on the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l batch-size -d 'Most records per batch [default: depends on the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l window -d 'Records read ahead and sorted by length, up to 16 MiB of text [default: 8192]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l threads -d 'Threads that run the model [default: one per usable core, two per device]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l max-record-bytes -d 'Largest record size, such as 512KiB; larger records are rejected [default: 4MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l on-error -d 'How to handle a record that cannot be embedded' -r -f -a "fail\t'Stop the run'
skip\t'Leave the record out, count it, and continue'
null\t'Write a row with a null vector and the reason in the column embedding_error, count it, and continue; pgcopy leaves out rows that PostgreSQL cannot hold'"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l storage-option -d 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l rejects -d 'JSONL file for skipped records: the whole record with file, line and reason' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l stats -d 'JSON file for the summary, written during the run and at its end' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l stats-interval -d 'Seconds between two updates of --stats' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -s o -l output -d 'Output of the run, whose size is estimated [default: a Parquet file]' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l log-format -d 'Format of messages on standard error; json prints one object per line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l color -d 'Colour messages; \'auto\' respects NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l cache-dir -d 'Folder of the Hub\'s model cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l config -d 'Settings file; no other file is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l uuid -d 'Add the column uuid: a UUID of each row, the same in every run'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l streams -d 'Answer one Arrow stream after another, each with its own schema, until standard input closes'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l source-columns -d 'Add the columns file and line with the place of each record in the input'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l sparse-tokens -d 'Write sparse vectors as maps from tokens to weights, as Elasticsearch and OpenSearch take them'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l late -d 'Late chunking: run each text whole, and pool the states of each chunk\'s tokens'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l chunk-text -d 'Add the column chunk_text with the text of each chunk'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l chunk-id -d 'Add the column chunk_id, a key of each chunk: ID#CHUNK, such as 17#0'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l no-cache -d 'Neither read nor keep packed weights in the user\'s cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l fail-on-empty -d 'Fail and write nothing if there is no record to embed'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l force -l overwrite -d 'Replace OUT if it exists'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l resume -d 'Resume an earlier run of the same command'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l dry-run -d 'Read the first 1,000 records (or --limit), describe the run, and write nothing'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -s q -l quiet -d 'Show only errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -s v -l verbose -d 'Show more: load time, skipped libraries and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l offline -d 'Never use the network: models must be in the cache'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -l no-config -d 'Read no settings files'
complete -c embedctl -n "__fish_embedctl_using_subcommand tokens" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "serve" -d 'Serve a model\'s vectors or scores over HTTP, as embed and score compute them'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "download" -d 'Download and verify models from the Hugging Face Hub'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "cache" -d 'List or remove what is kept on this machine: models, packed weights, kernels, compiled engines'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "info" -d 'Describe a model, and the providers that run it on this machine'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "export" -d 'Write a model\'s network as an ONNX file'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "inspect" -d 'Check files of vectors: their origin, their health, and whether they can be mixed'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "search" -d 'Find the rows of an output that are nearest to a query'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "compare" -d 'Show whether two outputs find the same rows'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "verify-model" -d 'Compare a model\'s vectors with reference vectors from sentence-transformers'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "devices" -d 'Show hardware, runtimes and working providers, and why the others do not work'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "bench" -d 'Measure the speed of a model on this machine, and its bottleneck'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "config" -d 'Show the settings in effect and the source of each'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "completions" -d 'Print a shell\'s completion script'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "man" -d 'Print the manual page (roff)'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "embed" -d 'Embed the records of files or of standard input'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "score" -d 'Score pairs of texts with a reranker, or single texts with a classifier'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "tokens" -d 'Show how long texts are in tokens, what a run would cut, and what it would take'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from serve download cache info export inspect search compare verify-model devices bench config completions man embed score tokens" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
