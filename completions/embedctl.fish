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
complete -c embedctl -n "__fish_embedctl_needs_command" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_needs_command" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_needs_command" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_needs_command" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_needs_command" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_needs_command" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_needs_command" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_needs_command" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_needs_command" -s V -l version -d 'Print version'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "embed" -d 'Embed the records of files or of standard input'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "download" -d 'Fetch and verify models from the Hugging Face Hub'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "info" -d 'Show what a model is, and what would run it here'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "inspect" -d 'Show what made files of vectors, how their vectors are, and why two don\'t mix'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "verify-model" -d 'Compare a model\'s vectors with those that sentence-transformers made of the same texts'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "devices" -d 'Show what hardware and runtimes are here, which providers work, and what the others lack'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "bench" -d 'Measure how fast a model is here, what limits it, and which settings are best'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "config" -d 'Show which settings are in force, and where each comes from'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "completions" -d 'Print a shell\'s completion script'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "man" -d 'Print the manual page (roff)'
complete -c embedctl -n "__fish_embedctl_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s o -l output -d 'File or object (s3://, gs://, az://) to write, or folder/ for parts; \'-\': standard output' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s f -l output-format -l format -d 'Format [default: by the ending of OUT; jsonl for \'-\']' -r -f -a "parquet\t'Columns id, kept fields and embedding, compressed with zstd'
arrow\t'The same columns as Arrow\'s IPC file (Feather); a stream where OUT is no file'
arrows\t'The same columns as Arrow\'s IPC stream'
npy\t'A matrix, with its rows\' ids in a file beside it'
jsonl\t'A JSON object for each row'
jsonl.gz\t'The same, compressed with gzip'
jsonl.zst\t'The same, compressed with zstd'
pgcopy\t'Rows for PostgreSQL\'s COPY ... WITH (FORMAT binary), vectors in pgvector\'s types'
fbin\t'A matrix: rows and width as u32, then float32 (DiskANN, cuVS, usearch), with its rows\' ids beside it'
i8bin\t'The same with int8'
u8bin\t'The same with uint8'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l dtype -d 'Type of a vector\'s components [default: f32; what -f says for i8bin and u8bin]' -r -f -a "f32\t''
f16\t''
int8\t''
uint8\t''
binary\t''
ubinary\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l calibration -d 'File that says which range of each component int8 and uint8 divide into 256 steps' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l vector-type -d 'Kind of list that a vector is in Parquet and Arrow [default: fixed]' -r -f -a "fixed\t'Lists of fixed size, which is what vectors are'
list\t'Lists of variable length, for readers that know no others (Spark)'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l embedding-field -l embedding-column -d 'Name of the vectors\' column [default: embedding]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l part-rows -d 'Records of a part, where OUT is a folder [default: as many as make 128 MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l shard -d 'Do one share of the input, such as 3/8: eight runs with 1/8 to 8/8 write one folder together' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l reuse -d 'Take the vectors of texts that an earlier output holds, and embed the others' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s i -l input-format -d 'Format of every input [default: by its ending; text for standard input]' -r -f -a "text\t'A line is a record'
jsonl\t'A line is a JSON object'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l csv-delimiter -d 'Character that parts the fields of CSV, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l text-template -d 'Put the text together from several fields: \'{title}\\n{body}\'' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l id-field -d 'Field or column that holds the id; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l id-type -d 'Type of the id column' -r -f -a "string\t'Strings; integers as their digits'
int\t'64-bit integers'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l keep -d 'Input fields to carry through: NAME or NAME:TYPE, with commas between; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l limit -d 'Read the first N records only; 0: all [default: all, with --dry-run 1,000]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l sample -d 'Draw N records at random, in the input\'s order' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l seed -d 'What --sample draws by' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk -d 'Cut texts that are too long for the model into chunks, each a row of its own' -r -f -a "tokens\t'At starts of words: as many tokens in a chunk as fit'
sentences\t'At starts of sentences: as many whole sentences in a chunk as fit'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk-tokens -d 'Tokens of a chunk at most [default: as many as the model takes]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk-overlap -d 'Tokens of a chunk that may repeat the end of the one before [default: 0]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s m -l model -d 'Hub id (org/name or org/name@revision) or a folder' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l model-file -d 'ONNX file inside the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l precision -d 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l pooling -d 'How token states become a vector; several, with commas between, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l max-length -d 'Tokens of a record at most; longer ones are cut and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l normalize -d 'Scale vectors to length 1, or don\'t, whatever the model\'s files say' -r -f -a "true\t''
false\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l prompt -d 'Text put before every record' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l prompt-name -d 'Prompt of the model\'s own, by its name (such as query)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l dimensions -l truncate-dim -d 'Components of a vector to keep (Matryoshka models)' -r
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
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l min-cosine -d 'Least cosine to fp32 that the native engine\'s int16 or int8 may have [default: 0.999 or 0.99]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l device -d 'Device numbers of the provider, with commas between, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l ort-lib -d 'ONNX Runtime library, or the folder that holds it; no other is looked at' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l batch-tokens -d 'Padded tokens in a batch at most [default: what suits the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l batch-size -d 'Records in a batch at most [default: what suits the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l window -d 'Records read ahead and sorted by length; 16 MiB of text at most [default: 8192]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l threads -d 'Threads that run the model [default: one for each usable core, two for each device]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l max-record-bytes -d 'Size of a record above which it is rejected, such as 512KiB [default: 4MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l on-error -d 'What a record does that cannot be embedded' -r -f -a "fail\t'Stop the run'
skip\t'Leave the record out, count it, and go on'
null\t'Write a row without a vector, with the reason in the column embedding_error, count it, and go on'"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l rejects -d 'File for skipped records, JSONL: each record whole, with file, line and reason' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l stats -d 'File for the summary as one JSON object, written while the run lasts and at its end' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l metrics -d 'File for Prometheus\' text format, such as node_exporter\'s textfile collector reads (FILE.prom)' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l stats-interval -d 'Seconds between two states of --stats and --metrics' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l storage-option -d 'Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l force -l overwrite -d 'Replace OUT if it exists'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l resume -d 'Go on where an earlier run of the same command was stopped'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l dry-run -d 'Read the first 1,000 records (or --limit), say what the run would do, and write nothing'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l streams -d 'Answer Arrow stream after stream, each with a schema of its own, until standard input closes'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l source-columns -d 'Add the columns file and line, which say where each record stood'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l chunk-text -d 'Write each chunk\'s text, too, as the column chunk_text'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l no-profile -d 'Ignore the settings that `bench --tune` has found for this model here'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l fail-on-empty -d 'Fail, and write nothing, if there is no record to embed'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand embed" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l model-file -d 'ONNX file inside the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l precision -d 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
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
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l local-dir -d 'Put the files into this folder, under their own names, instead of the cache' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l lock -d 'Write down the commits and hashes of what was fetched' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l locked -d 'Fetch exactly what --lock has written down, or fail' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l all -d 'Fetch everything in the repository'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l list -d 'Show the model\'s files with weights and their sizes, and fetch nothing'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l check -d 'Verify what is here: name every damaged or missing file, and fetch it again'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l json -d 'Print one JSON object a model to standard output: paths, commit, sizes, hashes'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand download" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l model-file -d 'ONNX file inside the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l precision -d 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l ort-lib -d 'ONNX Runtime library, or the folder that holds it; no other is looked at' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l json -d 'Print one JSON object instead of the table'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand info" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l rejects -d 'The file of rejected records that was written with FILE, to be compared with its hash' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l verify -d 'Embed so many rows of FILE again and compare; exit with 1 if they differ' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l input -d 'What was embedded, where FILE does not hold the texts' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s m -l model -d 'Where the model is, if not where the provenance says' -r -f -a "(__fish_complete_directories)"
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
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l storage-option -d 'Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s i -l input-format -d 'Format of every input [default: by its ending; text for standard input]' -r -f -a "text\t'A line is a record'
jsonl\t'A line is a JSON object'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l csv-delimiter -d 'Character that parts the fields of CSV, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l same -d 'Exit with 1 unless the vectors of all files mix'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l json -d 'Print one JSON object'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand inspect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l against -d 'The vectors: a row for each text (.npy, or what embed writes); an address (s3://, gs://, az://, https://, hf://) too' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l texts -d 'The texts that they were made of, as embed reads them [default: VECTORS with .jsonl or .txt in place of its ending]' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s i -l input-format -d 'Format of every input [default: by its ending; text for standard input]' -r -f -a "text\t'A line is a record'
jsonl\t'A line is a JSON object'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l csv-delimiter -d 'Character that parts the fields of CSV, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l model-file -d 'ONNX file inside the model, such as onnx/model_fp16.onnx' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l precision -d 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l pooling -d 'How token states become a vector; several, with commas between, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l max-length -d 'Tokens of a record at most; longer ones are cut and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l normalize -d 'Scale vectors to length 1, or don\'t, whatever the model\'s files say' -r -f -a "true\t''
false\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l prompt -d 'Text put before every record' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l prompt-name -d 'Prompt of the model\'s own, by its name (such as query)' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l dimensions -l truncate-dim -d 'Components of a vector to keep (Matryoshka models)' -r
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
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l min-cosine -d 'Least cosine to fp32 that the native engine\'s int16 or int8 may have [default: 0.999 or 0.99]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l device -d 'Device numbers of the provider, with commas between, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l ort-lib -d 'ONNX Runtime library, or the folder that holds it; no other is looked at' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l storage-option -d 'Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l json -d 'Print one JSON object instead of lines'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand verify-model" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l require -d 'Exit with 1, and say why, unless these providers work; with commas between' -r -f -a "native\t''
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
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l ort-lib -d 'ONNX Runtime library, or the folder that holds it; no other is looked at' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l json -d 'Print one JSON object instead of the table'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand devices" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l corpus -d 'Built-in texts [default: mixed]' -r -f -a "short\t''
long\t''
mixed\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l input -d 'Records of your own instead: what embed reads, addresses too; may be repeated; \'-\': standard input' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l csv-delimiter -d 'Character that parts the fields of CSV, such as \';\' or \'|\' [default: a comma; in TSV a tab]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l max-record-bytes -d 'Size of a record above which it is left out, such as 512KiB [default: 4MiB]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s i -l input-format -d 'Format of every input [default: by its ending; text for standard input]' -r -f -a "text\t'A line is a record'
jsonl\t'A line is a JSON object'
csv\t'Comma-separated values with a header'
tsv\t'Tab-separated values with a header'
parquet\t'Apache Parquet'
arrow\t'Apache Arrow: a file, or a stream'"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l text-field -l text-column -d 'Field or column that holds the text; nested as a.b' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s m -l model -d 'Hub id (org/name or org/name@revision) or a folder; may be repeated' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l model-file -d 'ONNX file inside the model, such as onnx/model_fp16.onnx; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l precision -d 'ONNX files inside the model, by their kinds, with commas between [default: fp32]' -r -f -a "fp32\t''
fp16\t''
bf16\t''
int16\t''
int8\t''
uint8\t''
q4\t''
q4f16\t''
bnb4\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l pooling -d 'How token states become a vector; several, with commas between, are concatenated' -r -f -a "cls\t''
max\t''
mean\t''
mean_sqrt_len_tokens\t''
weightedmean\t''
lasttoken\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l max-length -d 'Tokens of a record at most; longer ones are cut and counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s p -l provider -d 'Execution providers, with commas between, or auto; each is measured' -r -f -a "auto\t''
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
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l device -d 'Device numbers of the provider, with commas between, or all' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l provider-option -d 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l ort-lib -d 'ONNX Runtime library, or the folder that holds it; no other is looked at' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l batch-tokens -d 'Padded tokens in a batch at most, with commas between; each is measured' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l batch-size -d 'Records in a batch at most [default: what suits the engine]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l window -d 'Records read ahead and sorted by length; 16 MiB of text at most [default: 8192]' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l threads -d 'Threads that run the model, with commas between; each number is measured' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l duration -d 'Seconds of sampling for each configuration at most, warm-up not counted' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l min-cosine -d 'Least cosine to fp32 that the native engine\'s int16 or int8 may have' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l samples -d 'Take exactly so many samples of each, for tests' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l plot -d 'Draw the figures too: FILE.svg, replaced if it exists' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l baseline -d 'Compare with an earlier run: what --json printed' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l max-regression -d 'Loss of rows per second from which --baseline makes the run fail' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l storage-option -d 'Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated' -r
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l tune -d 'Find the best batch tokens, threads and window, and save them for embed to use'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l json -d 'Print one JSON object instead of tables'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l all -d 'Show defaults too'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l json -d 'Print one JSON object'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l dir -d 'Write the scripts for all shells into this folder instead' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l dir -d 'Write all pages into this folder instead' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l progress -d 'Show progress: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l log-format -d 'Form of everything on standard error; json prints one object a line' -r -f -a "text\t''
json\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l color -d 'Colour messages; \'auto\' heeds NO_COLOR' -r -f -a "auto\t''
always\t''
never\t''"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l cache-dir -d 'Folder of the Hub\'s cache, where models are kept' -r -f -a "(__fish_complete_directories)"
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l config -d 'File with settings; no other is read' -r -F
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -s q -l quiet -d 'Say nothing but errors and rejected records'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -s v -l verbose -d 'Say more: load time, libraries that were passed over and why'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l offline -d 'Never use the network: models must be here'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -l no-config -d 'Read no file with settings'
complete -c embedctl -n "__fish_embedctl_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "embed" -d 'Embed the records of files or of standard input'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "download" -d 'Fetch and verify models from the Hugging Face Hub'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "info" -d 'Show what a model is, and what would run it here'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "inspect" -d 'Show what made files of vectors, how their vectors are, and why two don\'t mix'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "verify-model" -d 'Compare a model\'s vectors with those that sentence-transformers made of the same texts'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "devices" -d 'Show what hardware and runtimes are here, which providers work, and what the others lack'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "bench" -d 'Measure how fast a model is here, what limits it, and which settings are best'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "config" -d 'Show which settings are in force, and where each comes from'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "completions" -d 'Print a shell\'s completion script'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "man" -d 'Print the manual page (roff)'
complete -c embedctl -n "__fish_embedctl_using_subcommand help; and not __fish_seen_subcommand_from embed download info inspect verify-model devices bench config completions man" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
