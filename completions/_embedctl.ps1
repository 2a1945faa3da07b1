
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
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('embed', 'embed', [CompletionResultType]::ParameterValue, 'Embed the records of files or of standard input')
            [CompletionResult]::new('download', 'download', [CompletionResultType]::ParameterValue, 'Fetch and verify models from the Hugging Face Hub')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show what a model is, and what would run it here')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Show what made files of vectors, how their vectors are, and why two don''t mix')
            [CompletionResult]::new('verify-model', 'verify-model', [CompletionResultType]::ParameterValue, 'Compare a model''s vectors with those that sentence-transformers made of the same texts')
            [CompletionResult]::new('devices', 'devices', [CompletionResultType]::ParameterValue, 'Show what hardware and runtimes are here, which providers work, and what the others lack')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure how fast a model is here, what limits it, and which settings are best')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Show which settings are in force, and where each comes from')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a shell''s completion script')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page (roff)')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'embedctl;embed' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'File or object (s3://, gs://, az://) to write, or folder/ for parts; ''-'': standard output')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'File or object (s3://, gs://, az://) to write, or folder/ for parts; ''-'': standard output')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Format [default: by the ending of OUT; jsonl for ''-'']')
            [CompletionResult]::new('--output-format', '--output-format', [CompletionResultType]::ParameterName, 'Format [default: by the ending of OUT; jsonl for ''-'']')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Format [default: by the ending of OUT; jsonl for ''-'']')
            [CompletionResult]::new('--dtype', '--dtype', [CompletionResultType]::ParameterName, 'Type of a vector''s components [default: f32; what -f says for i8bin and u8bin]')
            [CompletionResult]::new('--calibration', '--calibration', [CompletionResultType]::ParameterName, 'File that says which range of each component int8 and uint8 divide into 256 steps')
            [CompletionResult]::new('--vector-type', '--vector-type', [CompletionResultType]::ParameterName, 'Kind of list that a vector is in Parquet and Arrow [default: fixed]')
            [CompletionResult]::new('--embedding-field', '--embedding-field', [CompletionResultType]::ParameterName, 'Name of the vectors'' column [default: embedding]')
            [CompletionResult]::new('--embedding-column', '--embedding-column', [CompletionResultType]::ParameterName, 'Name of the vectors'' column [default: embedding]')
            [CompletionResult]::new('--part-rows', '--part-rows', [CompletionResultType]::ParameterName, 'Records of a part, where OUT is a folder [default: as many as make 128 MiB]')
            [CompletionResult]::new('--shard', '--shard', [CompletionResultType]::ParameterName, 'Do one share of the input, such as 3/8: eight runs with 1/8 to 8/8 write one folder together')
            [CompletionResult]::new('--reuse', '--reuse', [CompletionResultType]::ParameterName, 'Take the vectors of texts that an earlier output holds, and embed the others')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Format of every input [default: by its ending; text for standard input]')
            [CompletionResult]::new('--input-format', '--input-format', [CompletionResultType]::ParameterName, 'Format of every input [default: by its ending; text for standard input]')
            [CompletionResult]::new('--csv-delimiter', '--csv-delimiter', [CompletionResultType]::ParameterName, 'Character that parts the fields of CSV, such as '';'' or ''|'' [default: a comma; in TSV a tab]')
            [CompletionResult]::new('--text-field', '--text-field', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-column', '--text-column', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-template', '--text-template', [CompletionResultType]::ParameterName, 'Put the text together from several fields: ''{title}\n{body}''')
            [CompletionResult]::new('--id-field', '--id-field', [CompletionResultType]::ParameterName, 'Field or column that holds the id; nested as a.b')
            [CompletionResult]::new('--id-type', '--id-type', [CompletionResultType]::ParameterName, 'Type of the id column')
            [CompletionResult]::new('--keep', '--keep', [CompletionResultType]::ParameterName, 'Input fields to carry through: NAME or NAME:TYPE, with commas between; may be repeated')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'Read the first N records only; 0: all [default: all, with --dry-run 1,000]')
            [CompletionResult]::new('--sample', '--sample', [CompletionResultType]::ParameterName, 'Draw N records at random, in the input''s order')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'What --sample draws by')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Cut texts that are too long for the model into chunks, each a row of its own')
            [CompletionResult]::new('--chunk-tokens', '--chunk-tokens', [CompletionResultType]::ParameterName, 'Tokens of a chunk at most [default: as many as the model takes]')
            [CompletionResult]::new('--chunk-overlap', '--chunk-overlap', [CompletionResultType]::ParameterName, 'Tokens of a chunk that may repeat the end of the one before [default: 0]')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Hub id (org/name or org/name@revision) or a folder')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Hub id (org/name or org/name@revision) or a folder')
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file inside the model, such as onnx/model_fp16.onnx')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]')
            [CompletionResult]::new('--pooling', '--pooling', [CompletionResultType]::ParameterName, 'How token states become a vector; several, with commas between, are concatenated')
            [CompletionResult]::new('--max-length', '--max-length', [CompletionResultType]::ParameterName, 'Tokens of a record at most; longer ones are cut and counted')
            [CompletionResult]::new('--normalize', '--normalize', [CompletionResultType]::ParameterName, 'Scale vectors to length 1, or don''t, whatever the model''s files say')
            [CompletionResult]::new('--prompt', '--prompt', [CompletionResultType]::ParameterName, 'Text put before every record')
            [CompletionResult]::new('--prompt-name', '--prompt-name', [CompletionResultType]::ParameterName, 'Prompt of the model''s own, by its name (such as query)')
            [CompletionResult]::new('--dimensions', '--dimensions', [CompletionResultType]::ParameterName, 'Components of a vector to keep (Matryoshka models)')
            [CompletionResult]::new('--truncate-dim', '--truncate-dim', [CompletionResultType]::ParameterName, 'Components of a vector to keep (Matryoshka models)')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--min-cosine', '--min-cosine', [CompletionResultType]::ParameterName, 'Least cosine to fp32 that the native engine''s int16 or int8 may have [default: 0.999 or 0.99]')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Device numbers of the provider, with commas between, or all')
            [CompletionResult]::new('--provider-option', '--provider-option', [CompletionResultType]::ParameterName, 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or the folder that holds it; no other is looked at')
            [CompletionResult]::new('--batch-tokens', '--batch-tokens', [CompletionResultType]::ParameterName, 'Padded tokens in a batch at most [default: what suits the engine]')
            [CompletionResult]::new('--batch-size', '--batch-size', [CompletionResultType]::ParameterName, 'Records in a batch at most [default: what suits the engine]')
            [CompletionResult]::new('--window', '--window', [CompletionResultType]::ParameterName, 'Records read ahead and sorted by length; 16 MiB of text at most [default: 8192]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads that run the model [default: one for each usable core, two for each device]')
            [CompletionResult]::new('--max-record-bytes', '--max-record-bytes', [CompletionResultType]::ParameterName, 'Size of a record above which it is rejected, such as 512KiB [default: 4MiB]')
            [CompletionResult]::new('--on-error', '--on-error', [CompletionResultType]::ParameterName, 'What a record does that cannot be embedded')
            [CompletionResult]::new('--rejects', '--rejects', [CompletionResultType]::ParameterName, 'File for skipped records, JSONL: each record whole, with file, line and reason')
            [CompletionResult]::new('--stats', '--stats', [CompletionResultType]::ParameterName, 'File for the summary as one JSON object, written while the run lasts and at its end')
            [CompletionResult]::new('--metrics', '--metrics', [CompletionResultType]::ParameterName, 'File for Prometheus'' text format, such as node_exporter''s textfile collector reads (FILE.prom)')
            [CompletionResult]::new('--stats-interval', '--stats-interval', [CompletionResultType]::ParameterName, 'Seconds between two states of --stats and --metrics')
            [CompletionResult]::new('--storage-option', '--storage-option', [CompletionResultType]::ParameterName, 'Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Replace OUT if it exists')
            [CompletionResult]::new('--overwrite', '--overwrite', [CompletionResultType]::ParameterName, 'Replace OUT if it exists')
            [CompletionResult]::new('--resume', '--resume', [CompletionResultType]::ParameterName, 'Go on where an earlier run of the same command was stopped')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Read the first 1,000 records (or --limit), say what the run would do, and write nothing')
            [CompletionResult]::new('--streams', '--streams', [CompletionResultType]::ParameterName, 'Answer Arrow stream after stream, each with a schema of its own, until standard input closes')
            [CompletionResult]::new('--source-columns', '--source-columns', [CompletionResultType]::ParameterName, 'Add the columns file and line, which say where each record stood')
            [CompletionResult]::new('--chunk-text', '--chunk-text', [CompletionResultType]::ParameterName, 'Write each chunk''s text, too, as the column chunk_text')
            [CompletionResult]::new('--no-profile', '--no-profile', [CompletionResultType]::ParameterName, 'Ignore the settings that `bench --tune` has found for this model here')
            [CompletionResult]::new('--fail-on-empty', '--fail-on-empty', [CompletionResultType]::ParameterName, 'Fail, and write nothing, if there is no record to embed')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;download' {
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file inside the model, such as onnx/model_fp16.onnx')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--local-dir', '--local-dir', [CompletionResultType]::ParameterName, 'Put the files into this folder, under their own names, instead of the cache')
            [CompletionResult]::new('--lock', '--lock', [CompletionResultType]::ParameterName, 'Write down the commits and hashes of what was fetched')
            [CompletionResult]::new('--locked', '--locked', [CompletionResultType]::ParameterName, 'Fetch exactly what --lock has written down, or fail')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Fetch everything in the repository')
            [CompletionResult]::new('--list', '--list', [CompletionResultType]::ParameterName, 'Show the model''s files with weights and their sizes, and fetch nothing')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Verify what is here: name every damaged or missing file, and fetch it again')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object a model to standard output: paths, commit, sizes, hashes')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;info' {
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file inside the model, such as onnx/model_fp16.onnx')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or the folder that holds it; no other is looked at')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;inspect' {
            [CompletionResult]::new('--rejects', '--rejects', [CompletionResultType]::ParameterName, 'The file of rejected records that was written with FILE, to be compared with its hash')
            [CompletionResult]::new('--verify', '--verify', [CompletionResultType]::ParameterName, 'Embed so many rows of FILE again and compare; exit with 1 if they differ')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'What was embedded, where FILE does not hold the texts')
            [CompletionResult]::new('--text-field', '--text-field', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-column', '--text-column', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Where the model is, if not where the provenance says')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Where the model is, if not where the provenance says')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--storage-option', '--storage-option', [CompletionResultType]::ParameterName, 'Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Format of every input [default: by its ending; text for standard input]')
            [CompletionResult]::new('--input-format', '--input-format', [CompletionResultType]::ParameterName, 'Format of every input [default: by its ending; text for standard input]')
            [CompletionResult]::new('--csv-delimiter', '--csv-delimiter', [CompletionResultType]::ParameterName, 'Character that parts the fields of CSV, such as '';'' or ''|'' [default: a comma; in TSV a tab]')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('--same', '--same', [CompletionResultType]::ParameterName, 'Exit with 1 unless the vectors of all files mix')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;verify-model' {
            [CompletionResult]::new('--against', '--against', [CompletionResultType]::ParameterName, 'The vectors: a row for each text (.npy, or what embed writes); an address (s3://, gs://, az://, https://, hf://) too')
            [CompletionResult]::new('--texts', '--texts', [CompletionResultType]::ParameterName, 'The texts that they were made of, as embed reads them [default: VECTORS with .jsonl or .txt in place of its ending]')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Format of every input [default: by its ending; text for standard input]')
            [CompletionResult]::new('--input-format', '--input-format', [CompletionResultType]::ParameterName, 'Format of every input [default: by its ending; text for standard input]')
            [CompletionResult]::new('--csv-delimiter', '--csv-delimiter', [CompletionResultType]::ParameterName, 'Character that parts the fields of CSV, such as '';'' or ''|'' [default: a comma; in TSV a tab]')
            [CompletionResult]::new('--text-field', '--text-field', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-column', '--text-column', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file inside the model, such as onnx/model_fp16.onnx')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]')
            [CompletionResult]::new('--pooling', '--pooling', [CompletionResultType]::ParameterName, 'How token states become a vector; several, with commas between, are concatenated')
            [CompletionResult]::new('--max-length', '--max-length', [CompletionResultType]::ParameterName, 'Tokens of a record at most; longer ones are cut and counted')
            [CompletionResult]::new('--normalize', '--normalize', [CompletionResultType]::ParameterName, 'Scale vectors to length 1, or don''t, whatever the model''s files say')
            [CompletionResult]::new('--prompt', '--prompt', [CompletionResultType]::ParameterName, 'Text put before every record')
            [CompletionResult]::new('--prompt-name', '--prompt-name', [CompletionResultType]::ParameterName, 'Prompt of the model''s own, by its name (such as query)')
            [CompletionResult]::new('--dimensions', '--dimensions', [CompletionResultType]::ParameterName, 'Components of a vector to keep (Matryoshka models)')
            [CompletionResult]::new('--truncate-dim', '--truncate-dim', [CompletionResultType]::ParameterName, 'Components of a vector to keep (Matryoshka models)')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers in order of preference, or auto')
            [CompletionResult]::new('--min-cosine', '--min-cosine', [CompletionResultType]::ParameterName, 'Least cosine to fp32 that the native engine''s int16 or int8 may have [default: 0.999 or 0.99]')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Device numbers of the provider, with commas between, or all')
            [CompletionResult]::new('--provider-option', '--provider-option', [CompletionResultType]::ParameterName, 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or the folder that holds it; no other is looked at')
            [CompletionResult]::new('--storage-option', '--storage-option', [CompletionResultType]::ParameterName, 'Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of lines')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;devices' {
            [CompletionResult]::new('--require', '--require', [CompletionResultType]::ParameterName, 'Exit with 1, and say why, unless these providers work; with commas between')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or the folder that holds it; no other is looked at')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of the table')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;bench' {
            [CompletionResult]::new('--corpus', '--corpus', [CompletionResultType]::ParameterName, 'Built-in texts [default: mixed]')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'Records of your own instead: what embed reads, addresses too; may be repeated; ''-'': standard input')
            [CompletionResult]::new('--csv-delimiter', '--csv-delimiter', [CompletionResultType]::ParameterName, 'Character that parts the fields of CSV, such as '';'' or ''|'' [default: a comma; in TSV a tab]')
            [CompletionResult]::new('--max-record-bytes', '--max-record-bytes', [CompletionResultType]::ParameterName, 'Size of a record above which it is left out, such as 512KiB [default: 4MiB]')
            [CompletionResult]::new('-i', '-i', [CompletionResultType]::ParameterName, 'Format of every input [default: by its ending; text for standard input]')
            [CompletionResult]::new('--input-format', '--input-format', [CompletionResultType]::ParameterName, 'Format of every input [default: by its ending; text for standard input]')
            [CompletionResult]::new('--text-field', '--text-field', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('--text-column', '--text-column', [CompletionResultType]::ParameterName, 'Field or column that holds the text; nested as a.b')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Hub id (org/name or org/name@revision) or a folder; may be repeated')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Hub id (org/name or org/name@revision) or a folder; may be repeated')
            [CompletionResult]::new('--model-file', '--model-file', [CompletionResultType]::ParameterName, 'ONNX file inside the model, such as onnx/model_fp16.onnx; may be repeated')
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'ONNX files inside the model, by their kinds, with commas between [default: fp32]')
            [CompletionResult]::new('--pooling', '--pooling', [CompletionResultType]::ParameterName, 'How token states become a vector; several, with commas between, are concatenated')
            [CompletionResult]::new('--max-length', '--max-length', [CompletionResultType]::ParameterName, 'Tokens of a record at most; longer ones are cut and counted')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Execution providers, with commas between, or auto; each is measured')
            [CompletionResult]::new('--provider', '--provider', [CompletionResultType]::ParameterName, 'Execution providers, with commas between, or auto; each is measured')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Device numbers of the provider, with commas between, or all')
            [CompletionResult]::new('--provider-option', '--provider-option', [CompletionResultType]::ParameterName, 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated')
            [CompletionResult]::new('--ort-lib', '--ort-lib', [CompletionResultType]::ParameterName, 'ONNX Runtime library, or the folder that holds it; no other is looked at')
            [CompletionResult]::new('--batch-tokens', '--batch-tokens', [CompletionResultType]::ParameterName, 'Padded tokens in a batch at most, with commas between; each is measured')
            [CompletionResult]::new('--batch-size', '--batch-size', [CompletionResultType]::ParameterName, 'Records in a batch at most [default: what suits the engine]')
            [CompletionResult]::new('--window', '--window', [CompletionResultType]::ParameterName, 'Records read ahead and sorted by length; 16 MiB of text at most [default: 8192]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads that run the model, with commas between; each number is measured')
            [CompletionResult]::new('--duration', '--duration', [CompletionResultType]::ParameterName, 'Seconds of sampling for each configuration at most, warm-up not counted')
            [CompletionResult]::new('--min-cosine', '--min-cosine', [CompletionResultType]::ParameterName, 'Least cosine to fp32 that the native engine''s int16 or int8 may have')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'Take exactly so many samples of each, for tests')
            [CompletionResult]::new('--plot', '--plot', [CompletionResultType]::ParameterName, 'Draw the figures too: FILE.svg, replaced if it exists')
            [CompletionResult]::new('--baseline', '--baseline', [CompletionResultType]::ParameterName, 'Compare with an earlier run: what --json printed')
            [CompletionResult]::new('--max-regression', '--max-regression', [CompletionResultType]::ParameterName, 'Loss of rows per second from which --baseline makes the run fail')
            [CompletionResult]::new('--storage-option', '--storage-option', [CompletionResultType]::ParameterName, 'Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('--tune', '--tune', [CompletionResultType]::ParameterName, 'Find the best batch tokens, threads and window, and save them for embed to use')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of tables')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;config' {
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Show defaults too')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;completions' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Write the scripts for all shells into this folder instead')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;man' {
            [CompletionResult]::new('--dir', '--dir', [CompletionResultType]::ParameterName, 'Write all pages into this folder instead')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Show progress: on a terminal, always, or never')
            [CompletionResult]::new('--log-format', '--log-format', [CompletionResultType]::ParameterName, 'Form of everything on standard error; json prints one object a line')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour messages; ''auto'' heeds NO_COLOR')
            [CompletionResult]::new('--cache-dir', '--cache-dir', [CompletionResultType]::ParameterName, 'Folder of the Hub''s cache, where models are kept')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'File with settings; no other is read')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but errors and rejected records')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say more: load time, libraries that were passed over and why')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Never use the network: models must be here')
            [CompletionResult]::new('--no-config', '--no-config', [CompletionResultType]::ParameterName, 'Read no file with settings')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'embedctl;help' {
            [CompletionResult]::new('embed', 'embed', [CompletionResultType]::ParameterValue, 'Embed the records of files or of standard input')
            [CompletionResult]::new('download', 'download', [CompletionResultType]::ParameterValue, 'Fetch and verify models from the Hugging Face Hub')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show what a model is, and what would run it here')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Show what made files of vectors, how their vectors are, and why two don''t mix')
            [CompletionResult]::new('verify-model', 'verify-model', [CompletionResultType]::ParameterValue, 'Compare a model''s vectors with those that sentence-transformers made of the same texts')
            [CompletionResult]::new('devices', 'devices', [CompletionResultType]::ParameterValue, 'Show what hardware and runtimes are here, which providers work, and what the others lack')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure how fast a model is here, what limits it, and which settings are best')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Show which settings are in force, and where each comes from')
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
