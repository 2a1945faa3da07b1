
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'embedctl' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'embedctl'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'embedctl' {
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('embed', 'embed', [CompletionResultType]::ParameterValue, 'Embed the records of files or of standard input')
            [CompletionResult]::new('download', 'download', [CompletionResultType]::ParameterValue, 'Download and verify models from the Hugging Face Hub')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Describe a model, and the providers that run it on this machine')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Write a model''s network as an ONNX file')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Check files of vectors: their origin, their health, and whether they can be mixed')
            [CompletionResult]::new('verify-model', 'verify-model', [CompletionResultType]::ParameterValue, 'Compare a model''s vectors with reference vectors from sentence-transformers')
            [CompletionResult]::new('devices', 'devices', [CompletionResultType]::ParameterValue, 'Show hardware, runtimes and working providers, and why the others do not work')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure the speed of a model on this machine, its bottleneck, and the best settings')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Show the settings in effect and the source of each')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a shell''s completion script')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page (roff)')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'embedctl;embed' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Output file or object (s3://, gs://, az://), or folder/ for parts; ''-'': standard output')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Output file or object (s3://, gs://, az://), or folder/ for parts; ''-'': standard output')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Output format [default: by the extension of OUT; jsonl for ''-'']')
            [CompletionResult]::new('--output-format', '--output-format', [CompletionResultType]::ParameterName, 'Output format [default: by the extension of OUT; jsonl for ''-'']')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format [default: by the extension of OUT; jsonl for ''-'']')
            [CompletionResult]::new('--dtype', '--dtype', [CompletionResultType]::ParameterName, 'Type of the vector components [default: f32; int8 for i8bin, uint8 for u8bin]')
            [CompletionResult]::new('--calibration', '--calibration', [CompletionResultType]::ParameterName, 'File with the range of each component, for quantization to int8 and uint8')
            [CompletionResult]::new('--vector-type', '--vector-type', [CompletionResultType]::ParameterName, 'List type of the vectors in Parquet and Arrow [default: fixed; list in Parquet with --on-error null]')
            [CompletionResult]::new('--embedding-field', '--embedding-field', [CompletionResultType]::ParameterName, 'Name of the vector column [default: embedding]')
            [CompletionResult]::new('--embedding-column', '--embedding-column', [CompletionResultType]::ParameterName, 'Name of the vector column [default: embedding]')
            [CompletionResult]::new('--part-rows', '--part-rows', [CompletionResultType]::ParameterName, 'Records per part, if OUT is a folder [default: as many as fit in 128 MiB]')
            [CompletionResult]::new('--shard', '--shard', [CompletionResultType]::ParameterName, 'Process one share of the input, such as 3/8: eight runs, 1/8 to 8/8, write one folder together')
            [CompletionResult]::new('--reuse', '--reuse', [CompletionResultType]::ParameterName, 'Copy the vectors of texts found in an earlier output, and embed only the others')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Format of all inputs [default: by extension; text for standard input]')
            [CompletionResult]::new('--input-format', '--input-format', [CompletionResultType]::ParameterName, 'Format of all inputs [default: by extension; text for standard input]')
            [CompletionResult]::new('--csv-delimiter', '--csv-delimiter', [CompletionResultType]::ParameterName, 'Character that separates CSV fields, such as '';'' or ''|'' [default: a comma; in TSV a tab]')
            [CompletionResult]::new('--csv-quote', '--csv-quote', [CompletionResultType]::ParameterName, 'Quote around CSV fields; none: quotes are ordinary characters [default: ''"'']')
            [CompletionResult]::new('--csv-escape', '--csv-escape', [CompletionResultType]::ParameterName, 'Character that takes away the meaning of the next one in CSV, such as ''\''')
            [CompletionResult]::new('--csv-null', '--csv-null', [CompletionResultType]::ParameterName, 'CSV field that is null, such as ''\N'', NULL or '''' [default: no field is null]')
            [CompletionResult]::new('--text-field', '--text-field', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-column', '--text-column', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-template', '--text-template', [CompletionResultType]::ParameterName, 'Build the text from several fields: ''{title}\n{body}''')
            [CompletionResult]::new('--id-field', '--id-field', [CompletionResultType]::ParameterName, 'Field or column that holds the id; nested as a.b')
            [CompletionResult]::new('--id-type', '--id-type', [CompletionResultType]::ParameterName, 'Type of the id column')
            [CompletionResult]::new('--keep', '--keep', [CompletionResultType]::ParameterName, 'Input fields to copy to the output: NAME or NAME:TYPE, separated by commas; may be repeated')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'Read only the first N records; 0: all [default: all; 1,000 with --dry-run]')
            [CompletionResult]::new('--sample', '--sample', [CompletionResultType]::ParameterName, 'Embed a random sample of N records, in input order')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of --sample')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Split texts that are too long for the model into chunks, one row each')
            [CompletionResult]::new('--chunk-tokens', '--chunk-tokens', [CompletionResultType]::ParameterName, 'Most tokens per chunk [default: the model''s limit]')
            [CompletionResult]::new('--chunk-overlap', '--chunk-overlap', [CompletionResultType]::ParameterName, 'Tokens that a chunk repeats from the end of the previous one [default: 0]')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Hub id (org/name or org/name@revision) or a folder')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Hub id (org/name or org/name@revision) or a folder')
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file of the model, such as onnx/model_fp16.onnx')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision of the arithmetic, or of the model''s ONNX file [default: fp32]')
            [CompletionResult]::new('--weights', '--weights', [CompletionResultType]::ParameterName, 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]')
            [CompletionResult]::new('--pooling', '--pooling', [CompletionResultType]::ParameterName, 'Pooling mode; several, separated by commas, are concatenated')
            [CompletionResult]::new('--max-length', '--max-length', [CompletionResultType]::ParameterName, 'Most tokens per record; longer records are truncated and counted')
            [CompletionResult]::new('--normalize', '--normalize', [CompletionResultType]::ParameterName, 'Whether to scale vectors to length 1; overrides the model''s files')
            [CompletionResult]::new('--prompt', '--prompt', [CompletionResultType]::ParameterName, 'Text to put before every record')
            [CompletionResult]::new('--prompt-name', '--prompt-name', [CompletionResultType]::ParameterName, 'Name of one of the model''s prompts, such as query')
            [CompletionResult]::new('--dimensions', '--dimensions', [CompletionResultType]::ParameterName, 'Components of a vector to keep (Matryoshka models)')
            [CompletionResult]::new('--truncate-dim', '--truncate-dim', [CompletionResultType]::ParameterName, 'Components of a vector to keep (Matryoshka models)')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--min-cosine', '--min-cosine', [CompletionResultType]::ParameterName, 'Least cosine to fp32 for int16 and int8 of the native engine [default: 0.999 or 0.99]')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Device numbers of the provider, separated by commas, or all')
            [CompletionResult]::new('--provider-option', '--provider-option', [CompletionResultType]::ParameterName, 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or its folder; no other library is tried')
            [CompletionResult]::new('--batch-tokens', '--batch-tokens', [CompletionResultType]::ParameterName, 'Most tokens per batch, with padding [default: depends on the engine]')
            [CompletionResult]::new('--batch-size', '--batch-size', [CompletionResultType]::ParameterName, 'Most records per batch [default: depends on the engine]')
            [CompletionResult]::new('--window', '--window', [CompletionResultType]::ParameterName, 'Records read ahead and sorted by length, up to 16 MiB of text [default: 8192]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads that run the model [default: one per usable core, two per device]')
            [CompletionResult]::new('--max-record-bytes', '--max-record-bytes', [CompletionResultType]::ParameterName, 'Largest record size, such as 512KiB; larger records are rejected [default: 4MiB]')
            [CompletionResult]::new('--on-error', '--on-error', [CompletionResultType]::ParameterName, 'How to handle a record that cannot be embedded')
            [CompletionResult]::new('--rejects', '--rejects', [CompletionResultType]::ParameterName, 'JSONL file for skipped records: the whole record with file, line and reason')
            [CompletionResult]::new('--stats', '--stats', [CompletionResultType]::ParameterName, 'JSON file for the summary, written during the run and at its end')
            [CompletionResult]::new('--metrics', '--metrics', [CompletionResultType]::ParameterName, 'File in Prometheus'' text format, as node_exporter''s textfile collector reads it (FILE.prom)')
            [CompletionResult]::new('--stats-interval', '--stats-interval', [CompletionResultType]::ParameterName, 'Seconds between two updates of --stats and --metrics')
            [CompletionResult]::new('--storage-option', '--storage-option', [CompletionResultType]::ParameterName, 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Replace OUT if it exists')
            [CompletionResult]::new('--overwrite', '--overwrite', [CompletionResultType]::ParameterName, 'Replace OUT if it exists')
            [CompletionResult]::new('--resume', '--resume', [CompletionResultType]::ParameterName, 'Resume an earlier run of the same command')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Read the first 1,000 records (or --limit), describe the run, and write nothing')
            [CompletionResult]::new('--streams', '--streams', [CompletionResultType]::ParameterName, 'Answer one Arrow stream after another, each with its own schema, until standard input closes')
            [CompletionResult]::new('--source-columns', '--source-columns', [CompletionResultType]::ParameterName, 'Add the columns file and line with the place of each record in the input')
            [CompletionResult]::new('--chunk-text', '--chunk-text', [CompletionResultType]::ParameterName, 'Add the column chunk_text with the text of each chunk')
            [CompletionResult]::new('--no-profile', '--no-profile', [CompletionResultType]::ParameterName, 'Ignore the settings that `bench --tune` saved for this model on this machine')
            [CompletionResult]::new('--fail-on-empty', '--fail-on-empty', [CompletionResultType]::ParameterName, 'Fail and write nothing if there is no record to embed')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;download' {
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file of the model, such as onnx/model_fp16.onnx')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision of the arithmetic, or of the model''s ONNX file [default: fp32]')
            [CompletionResult]::new('--weights', '--weights', [CompletionResultType]::ParameterName, 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--local-dir', '--local-dir', [CompletionResultType]::ParameterName, 'Write the files into this folder, under their own names, instead of the cache')
            [CompletionResult]::new('--lock', '--lock', [CompletionResultType]::ParameterName, 'Write a lock file with the commits and hashes of the downloaded models')
            [CompletionResult]::new('--locked', '--locked', [CompletionResultType]::ParameterName, 'Download exactly the files recorded by --lock, or fail')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Download all files of the repository')
            [CompletionResult]::new('--list', '--list', [CompletionResultType]::ParameterName, 'List the model''s weight files and their sizes, and download nothing')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Verify downloaded models: name every damaged or missing file, and download it again')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object per model to standard output: paths, commit, sizes, hashes')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;info' {
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file of the model, such as onnx/model_fp16.onnx')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision of the arithmetic, or of the model''s ONNX file [default: fp32]')
            [CompletionResult]::new('--weights', '--weights', [CompletionResultType]::ParameterName, 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or its folder; no other library is tried')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;export' {
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Numbers that the graph computes in; its output is fp32 in any case')
            [CompletionResult]::new('--pooling', '--pooling', [CompletionResultType]::ParameterName, 'Pooling mode; several, separated by commas, are concatenated')
            [CompletionResult]::new('--max-length', '--max-length', [CompletionResultType]::ParameterName, 'Most tokens per record; longer records are truncated and counted')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--pooled', '--pooled', [CompletionResultType]::ParameterName, 'Write finished vectors (sentence_embedding), not token states (last_hidden_state)')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Replace OUT.onnx and its weights if they exist')
            [CompletionResult]::new('--overwrite', '--overwrite', [CompletionResultType]::ParameterName, 'Replace OUT.onnx and its weights if they exist')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;inspect' {
            [CompletionResult]::new('--rejects', '--rejects', [CompletionResultType]::ParameterName, 'File of rejected records written with FILE, to check its hash')
            [CompletionResult]::new('--verify', '--verify', [CompletionResultType]::ParameterName, 'Embed N rows of FILE again and compare; exit with 1 if they differ')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'The embedded input, if FILE does not hold the texts')
            [CompletionResult]::new('--csv-delimiter', '--csv-delimiter', [CompletionResultType]::ParameterName, 'Character that separates CSV fields, such as '';'' or ''|'' [default: a comma; in TSV a tab]')
            [CompletionResult]::new('--csv-quote', '--csv-quote', [CompletionResultType]::ParameterName, 'Quote around CSV fields; none: quotes are ordinary characters [default: ''"'']')
            [CompletionResult]::new('--csv-escape', '--csv-escape', [CompletionResultType]::ParameterName, 'Character that takes away the meaning of the next one in CSV, such as ''\''')
            [CompletionResult]::new('--csv-null', '--csv-null', [CompletionResultType]::ParameterName, 'CSV field that is null, such as ''\N'', NULL or '''' [default: no field is null]')
            [CompletionResult]::new('--text-field', '--text-field', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-column', '--text-column', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'The model, if it is not at the place in the provenance')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'The model, if it is not at the place in the provenance')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--storage-option', '--storage-option', [CompletionResultType]::ParameterName, 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Format of all inputs [default: by extension; text for standard input]')
            [CompletionResult]::new('--input-format', '--input-format', [CompletionResultType]::ParameterName, 'Format of all inputs [default: by extension; text for standard input]')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--same', '--same', [CompletionResultType]::ParameterName, 'Exit with 1 unless the vectors of all files can be mixed')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;verify-model' {
            [CompletionResult]::new('--against', '--against', [CompletionResultType]::ParameterName, 'Reference vectors, one row per text: .npy, an output of embed, or an address (s3://, gs://, az://, https://, hf://)')
            [CompletionResult]::new('--texts', '--texts', [CompletionResultType]::ParameterName, 'Texts of the reference vectors, in an input format of embed [default: VECTORS with the extension .jsonl or .txt]')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Format of all inputs [default: by extension; text for standard input]')
            [CompletionResult]::new('--input-format', '--input-format', [CompletionResultType]::ParameterName, 'Format of all inputs [default: by extension; text for standard input]')
            [CompletionResult]::new('--csv-delimiter', '--csv-delimiter', [CompletionResultType]::ParameterName, 'Character that separates CSV fields, such as '';'' or ''|'' [default: a comma; in TSV a tab]')
            [CompletionResult]::new('--csv-quote', '--csv-quote', [CompletionResultType]::ParameterName, 'Quote around CSV fields; none: quotes are ordinary characters [default: ''"'']')
            [CompletionResult]::new('--csv-escape', '--csv-escape', [CompletionResultType]::ParameterName, 'Character that takes away the meaning of the next one in CSV, such as ''\''')
            [CompletionResult]::new('--csv-null', '--csv-null', [CompletionResultType]::ParameterName, 'CSV field that is null, such as ''\N'', NULL or '''' [default: no field is null]')
            [CompletionResult]::new('--text-field', '--text-field', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-column', '--text-column', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file of the model, such as onnx/model_fp16.onnx')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision of the arithmetic, or of the model''s ONNX file [default: fp32]')
            [CompletionResult]::new('--weights', '--weights', [CompletionResultType]::ParameterName, 'Kind of weights to take: safetensors, or onnx [default: as suits the provider]')
            [CompletionResult]::new('--pooling', '--pooling', [CompletionResultType]::ParameterName, 'Pooling mode; several, separated by commas, are concatenated')
            [CompletionResult]::new('--max-length', '--max-length', [CompletionResultType]::ParameterName, 'Most tokens per record; longer records are truncated and counted')
            [CompletionResult]::new('--normalize', '--normalize', [CompletionResultType]::ParameterName, 'Whether to scale vectors to length 1; overrides the model''s files')
            [CompletionResult]::new('--prompt', '--prompt', [CompletionResultType]::ParameterName, 'Text to put before every record')
            [CompletionResult]::new('--prompt-name', '--prompt-name', [CompletionResultType]::ParameterName, 'Name of one of the model''s prompts, such as query')
            [CompletionResult]::new('--dimensions', '--dimensions', [CompletionResultType]::ParameterName, 'Components of a vector to keep (Matryoshka models)')
            [CompletionResult]::new('--truncate-dim', '--truncate-dim', [CompletionResultType]::ParameterName, 'Components of a vector to keep (Matryoshka models)')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--min-cosine', '--min-cosine', [CompletionResultType]::ParameterName, 'Least cosine to fp32 for int16 and int8 of the native engine [default: 0.999 or 0.99]')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Device numbers of the provider, separated by commas, or all')
            [CompletionResult]::new('--provider-option', '--provider-option', [CompletionResultType]::ParameterName, 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or its folder; no other library is tried')
            [CompletionResult]::new('--storage-option', '--storage-option', [CompletionResultType]::ParameterName, 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of lines')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;devices' {
            [CompletionResult]::new('--require', '--require', [CompletionResultType]::ParameterName, 'Exit with 1 and the reason unless these providers work; separated by commas')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or its folder; no other library is tried')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;bench' {
            [CompletionResult]::new('--corpus', '--corpus', [CompletionResultType]::ParameterName, 'Built-in texts [default: mixed]')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'Your own records instead: any input of embed, also addresses; may be repeated; ''-'': standard input')
            [CompletionResult]::new('--csv-delimiter', '--csv-delimiter', [CompletionResultType]::ParameterName, 'Character that separates CSV fields, such as '';'' or ''|'' [default: a comma; in TSV a tab]')
            [CompletionResult]::new('--csv-quote', '--csv-quote', [CompletionResultType]::ParameterName, 'Quote around CSV fields; none: quotes are ordinary characters [default: ''"'']')
            [CompletionResult]::new('--csv-escape', '--csv-escape', [CompletionResultType]::ParameterName, 'Character that takes away the meaning of the next one in CSV, such as ''\''')
            [CompletionResult]::new('--csv-null', '--csv-null', [CompletionResultType]::ParameterName, 'CSV field that is null, such as ''\N'', NULL or '''' [default: no field is null]')
            [CompletionResult]::new('--max-record-bytes', '--max-record-bytes', [CompletionResultType]::ParameterName, 'Largest record size, such as 512KiB; larger records are left out [default: 4MiB]')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Format of all inputs [default: by extension; text for standard input]')
            [CompletionResult]::new('--input-format', '--input-format', [CompletionResultType]::ParameterName, 'Format of all inputs [default: by extension; text for standard input]')
            [CompletionResult]::new('--text-field', '--text-field', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-column', '--text-column', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Hub id (org/name or org/name@revision) or a folder; may be repeated')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Hub id (org/name or org/name@revision) or a folder; may be repeated')
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file of the model, such as onnx/model_fp16.onnx; may be repeated')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precisions of the model''s ONNX files, separated by commas [default: fp32]')
            [CompletionResult]::new('--pooling', '--pooling', [CompletionResultType]::ParameterName, 'Pooling mode; several, separated by commas, are concatenated')
            [CompletionResult]::new('--max-length', '--max-length', [CompletionResultType]::ParameterName, 'Most tokens per record; longer records are truncated and counted')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers, separated by commas, or auto; each is measured')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers, separated by commas, or auto; each is measured')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Device numbers of the provider, separated by commas, or all')
            [CompletionResult]::new('--provider-option', '--provider-option', [CompletionResultType]::ParameterName, 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or its folder; no other library is tried')
            [CompletionResult]::new('--batch-tokens', '--batch-tokens', [CompletionResultType]::ParameterName, 'Most tokens per batch, with padding; several, separated by commas, are all measured')
            [CompletionResult]::new('--batch-size', '--batch-size', [CompletionResultType]::ParameterName, 'Most records per batch [default: depends on the engine]')
            [CompletionResult]::new('--window', '--window', [CompletionResultType]::ParameterName, 'Records read ahead and sorted by length, up to 16 MiB of text [default: 8192]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads that run the model; several numbers, separated by commas, are all measured')
            [CompletionResult]::new('--duration', '--duration', [CompletionResultType]::ParameterName, 'Most seconds of sampling per configuration, without warm-up')
            [CompletionResult]::new('--min-cosine', '--min-cosine', [CompletionResultType]::ParameterName, 'Least cosine to fp32 for int16 and int8 of the native engine')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'Take exactly this number of samples of each configuration, for tests')
            [CompletionResult]::new('--plot', '--plot', [CompletionResultType]::ParameterName, 'Also plot the results: FILE.svg, replaced if it exists')
            [CompletionResult]::new('--baseline', '--baseline', [CompletionResultType]::ParameterName, 'Compare with the --json output of an earlier run')
            [CompletionResult]::new('--max-regression', '--max-regression', [CompletionResultType]::ParameterName, 'Loss of rows per second at which the comparison with --baseline fails')
            [CompletionResult]::new('--storage-option', '--storage-option', [CompletionResultType]::ParameterName, 'Setting of the object stores, such as aws_region=eu-west-1; may be repeated')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--tune', '--tune', [CompletionResultType]::ParameterName, 'Find the best batch tokens, threads and window, and save them for embed')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of tables')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;config' {
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Show default values, too')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;completions' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Write the scripts for all shells into this folder instead')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;man' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Write all pages into this folder instead')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Format of messages on standard error; json prints one object per line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' respects NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s model cache')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Settings file; no other file is read')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show only errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show more: load time, skipped libraries and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be in the cache')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no settings files')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;help' {
            [CompletionResult]::new('embed', 'embed', [CompletionResultType]::ParameterValue, 'Embed the records of files or of standard input')
            [CompletionResult]::new('download', 'download', [CompletionResultType]::ParameterValue, 'Download and verify models from the Hugging Face Hub')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Describe a model, and the providers that run it on this machine')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Write a model''s network as an ONNX file')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Check files of vectors: their origin, their health, and whether they can be mixed')
            [CompletionResult]::new('verify-model', 'verify-model', [CompletionResultType]::ParameterValue, 'Compare a model''s vectors with reference vectors from sentence-transformers')
            [CompletionResult]::new('devices', 'devices', [CompletionResultType]::ParameterValue, 'Show hardware, runtimes and working providers, and why the others do not work')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure the speed of a model on this machine, its bottleneck, and the best settings')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Show the settings in effect and the source of each')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a shell''s completion script')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page (roff)')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'embedctl;help;embed' {
            break
        }
        'embedctl;help;download' {
            break
        }
        'embedctl;help;info' {
            break
        }
        'embedctl;help;export' {
            break
        }
        'embedctl;help;inspect' {
            break
        }
        'embedctl;help;verify-model' {
            break
        }
        'embedctl;help;devices' {
            break
        }
        'embedctl;help;bench' {
            break
        }
        'embedctl;help;config' {
            break
        }
        'embedctl;help;completions' {
            break
        }
        'embedctl;help;man' {
            break
        }
        'embedctl;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
