
use builtin;
use str;

set edit:completion:arg-completer[embedctl] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'embedctl'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'embedctl'= {
            cand --progress 'Show progress: on a terminal, always, or never'
            cand --log-format 'Form of everything on standard error; json prints one object a line'
            cand --color 'Colour messages; ''auto'' heeds NO_COLOR'
            cand --cache-dir 'Folder of the Hub''s cache, where models are kept'
            cand -q 'Say nothing but errors and rejected records'
            cand --quiet 'Say nothing but errors and rejected records'
            cand -v 'Say more: load time, libraries that were passed over and why'
            cand --verbose 'Say more: load time, libraries that were passed over and why'
            cand --offline 'Never use the network: models must be here'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand embed 'Embed the records of files or of standard input'
            cand download 'Fetch and verify models from the Hugging Face Hub'
            cand info 'Show what a model is, and what would run it here'
            cand devices 'Show what hardware and runtimes are here, which providers work, and what the others lack'
            cand bench 'Measure how fast a model is here, what limits it, and which settings are best'
            cand completions 'Print a shell''s completion script'
            cand man 'Print the manual page (roff)'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'embedctl;embed'= {
            cand -o 'File or object (s3://, gs://, az://) to write, or folder/ for parts; ''-'': standard output'
            cand --output 'File or object (s3://, gs://, az://) to write, or folder/ for parts; ''-'': standard output'
            cand -f 'Format [default: by the ending of OUT; jsonl for ''-'']'
            cand --output-format 'Format [default: by the ending of OUT; jsonl for ''-'']'
            cand --format 'Format [default: by the ending of OUT; jsonl for ''-'']'
            cand --vector-type 'Kind of list that a vector is in Parquet and Arrow [default: fixed]'
            cand --embedding-field 'Name of the vectors'' column [default: embedding]'
            cand --embedding-column 'Name of the vectors'' column [default: embedding]'
            cand --part-rows 'Records of a part, where OUT is a folder [default: as many as make 128 MiB]'
            cand -i 'Format of every input [default: by its ending; text for standard input]'
            cand --input-format 'Format of every input [default: by its ending; text for standard input]'
            cand --text-field 'JSONL field that holds the text; nested as a.b'
            cand --text-column 'JSONL field that holds the text; nested as a.b'
            cand --id-field 'JSONL field that holds the id; nested as a.b'
            cand --id-type 'Type of the id column'
            cand --keep 'Input fields to carry through: NAME or NAME:TYPE, with commas between; may be repeated'
            cand -m 'Hub id (org/name or org/name@revision) or a folder'
            cand --model 'Hub id (org/name or org/name@revision) or a folder'
            cand --model-file 'ONNX file inside the model, such as onnx/model_fp16.onnx'
            cand --precision 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]'
            cand --pooling 'How token states become a vector; several, with commas between, are concatenated'
            cand --normalize 'Scale vectors to length 1, or don''t, whatever the model''s files say'
            cand --max-length 'Tokens of a record at most; longer ones are cut and counted'
            cand --prompt 'Text put before every record'
            cand --prompt-name 'Prompt of the model''s own, by its name (such as query)'
            cand --dimensions 'Components of a vector to keep (Matryoshka models)'
            cand --truncate-dim 'Components of a vector to keep (Matryoshka models)'
            cand -p 'Execution providers in order of preference, or auto'
            cand --provider 'Execution providers in order of preference, or auto'
            cand --min-cosine 'Least cosine to fp32 that the native engine''s int16 or int8 may have [default: 0.999 or 0.99]'
            cand --device 'Device numbers of the provider, with commas between, or all'
            cand --provider-option 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated'
            cand --ort-lib 'ONNX Runtime library, or the folder that holds it'
            cand --batch-tokens 'Padded tokens in a batch at most [default: what suits the engine]'
            cand --batch-size 'Records in a batch at most [default: what suits the engine]'
            cand --window 'Records read ahead and sorted by length; 16 MiB of text at most [default: 8192]'
            cand --threads 'Threads that run the model [default: one for each usable core, two for each device]'
            cand --max-record-bytes 'Size of a record above which it is rejected, such as 512KiB [default: 4MiB]'
            cand --on-error 'What a record does that cannot be embedded'
            cand --rejects 'File for skipped records, JSONL: file, line, reason, start of the record'
            cand --stats 'File for the summary as one JSON object, written while the run lasts and at its end'
            cand --metrics 'File for Prometheus'' text format, such as node_exporter''s textfile collector reads (FILE.prom)'
            cand --stats-interval 'Seconds between two states of --stats and --metrics'
            cand --storage-option 'Setting for inputs and outputs on object stores, such as aws_region=eu-west-1; may be repeated'
            cand --progress 'Show progress: on a terminal, always, or never'
            cand --log-format 'Form of everything on standard error; json prints one object a line'
            cand --color 'Colour messages; ''auto'' heeds NO_COLOR'
            cand --cache-dir 'Folder of the Hub''s cache, where models are kept'
            cand --force 'Replace OUT if it exists'
            cand --overwrite 'Replace OUT if it exists'
            cand --resume 'Go on where an earlier run of the same command was stopped'
            cand --no-profile 'Ignore the settings that `bench --tune` has found for this model here'
            cand --fail-on-empty 'Fail, and write nothing, if there is no record to embed'
            cand -q 'Say nothing but errors and rejected records'
            cand --quiet 'Say nothing but errors and rejected records'
            cand -v 'Say more: load time, libraries that were passed over and why'
            cand --verbose 'Say more: load time, libraries that were passed over and why'
            cand --offline 'Never use the network: models must be here'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'embedctl;download'= {
            cand --model-file 'ONNX file inside the model, such as onnx/model_fp16.onnx'
            cand --precision 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]'
            cand -p 'For which providers: what embed would take with the same list'
            cand --provider 'For which providers: what embed would take with the same list'
            cand --local-dir 'Put the files into this folder, under their own names, instead of the cache'
            cand --lock 'Write down the commits and hashes of what was fetched'
            cand --locked 'Fetch exactly what --lock has written down, or fail'
            cand --progress 'Show progress: on a terminal, always, or never'
            cand --log-format 'Form of everything on standard error; json prints one object a line'
            cand --color 'Colour messages; ''auto'' heeds NO_COLOR'
            cand --cache-dir 'Folder of the Hub''s cache, where models are kept'
            cand --all 'Fetch everything in the repository'
            cand --list 'Show the model''s files with weights and their sizes, and fetch nothing'
            cand --check 'Verify what is here: name every damaged or missing file, and fetch it again'
            cand --json 'Print one JSON object a model to standard output: paths, commit, sizes, hashes'
            cand -q 'Say nothing but errors and rejected records'
            cand --quiet 'Say nothing but errors and rejected records'
            cand -v 'Say more: load time, libraries that were passed over and why'
            cand --verbose 'Say more: load time, libraries that were passed over and why'
            cand --offline 'Never use the network: models must be here'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'embedctl;info'= {
            cand --model-file 'ONNX file inside the model, such as onnx/model_fp16.onnx'
            cand --precision 'Precision of the arithmetic, or the kind of ONNX file inside the model [default: fp32]'
            cand --ort-lib 'ONNX Runtime library, or the folder that holds it; no other is looked at'
            cand --progress 'Show progress: on a terminal, always, or never'
            cand --log-format 'Form of everything on standard error; json prints one object a line'
            cand --color 'Colour messages; ''auto'' heeds NO_COLOR'
            cand --cache-dir 'Folder of the Hub''s cache, where models are kept'
            cand --json 'Print one JSON object instead of the table'
            cand -q 'Say nothing but errors and rejected records'
            cand --quiet 'Say nothing but errors and rejected records'
            cand -v 'Say more: load time, libraries that were passed over and why'
            cand --verbose 'Say more: load time, libraries that were passed over and why'
            cand --offline 'Never use the network: models must be here'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'embedctl;devices'= {
            cand --require 'Exit with 1, and say why, unless these providers work; with commas between'
            cand --ort-lib 'ONNX Runtime library, or the folder that holds it; no other is looked at'
            cand --progress 'Show progress: on a terminal, always, or never'
            cand --log-format 'Form of everything on standard error; json prints one object a line'
            cand --color 'Colour messages; ''auto'' heeds NO_COLOR'
            cand --cache-dir 'Folder of the Hub''s cache, where models are kept'
            cand --json 'Print one JSON object instead of the table'
            cand -q 'Say nothing but errors and rejected records'
            cand --quiet 'Say nothing but errors and rejected records'
            cand -v 'Say more: load time, libraries that were passed over and why'
            cand --verbose 'Say more: load time, libraries that were passed over and why'
            cand --offline 'Never use the network: models must be here'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'embedctl;bench'= {
            cand --corpus 'Built-in texts [default: mixed]'
            cand --input 'Records of your own instead; may be repeated; ''-'': standard input'
            cand -i 'Format of every input [default: by its ending; text for standard input]'
            cand --input-format 'Format of every input [default: by its ending; text for standard input]'
            cand --text-field 'JSONL field that holds the text; nested as a.b [default: text]'
            cand --text-column 'JSONL field that holds the text; nested as a.b [default: text]'
            cand --max-record-bytes 'Size of a record above which it is left out, such as 512KiB [default: 4MiB]'
            cand -m 'Hub id (org/name or org/name@revision) or a folder; may be repeated'
            cand --model 'Hub id (org/name or org/name@revision) or a folder; may be repeated'
            cand --model-file 'ONNX file inside the model, such as onnx/model_fp16.onnx; may be repeated'
            cand --precision 'ONNX files inside the model, by their kinds, with commas between [default: fp32]'
            cand --pooling 'How token states become a vector [default: as the model''s files say]'
            cand --max-length 'Tokens of a record at most; longer ones are cut and counted'
            cand -p 'Execution providers, with commas between, or auto; each is measured'
            cand --provider 'Execution providers, with commas between, or auto; each is measured'
            cand --device 'Device numbers of the provider, with commas between, or all'
            cand --provider-option 'Option of a provider: PROVIDER.NAME=VALUE, such as openvino.precision=bf16; may be repeated'
            cand --ort-lib 'ONNX Runtime library, or the folder that holds it'
            cand --batch-tokens 'Padded tokens in a batch at most, with commas between; each is measured'
            cand --batch-size 'Records in a batch at most [default: what suits the engine]'
            cand --window 'Records read ahead and sorted by length [default: 8192]'
            cand --threads 'Threads that run the model, with commas between; each number is measured'
            cand --duration 'Seconds of sampling for each configuration at most, warm-up not counted'
            cand --min-cosine 'Least cosine to fp32 that the native engine''s int16 or int8 may have'
            cand --samples 'Take exactly so many samples of each, for tests'
            cand --plot 'Draw the figures too: FILE.svg, replaced if it exists'
            cand --baseline 'Compare with an earlier run: what --json printed'
            cand --max-regression 'Loss of rows per second from which --baseline makes the run fail'
            cand --progress 'Show progress: on a terminal, always, or never'
            cand --log-format 'Form of everything on standard error; json prints one object a line'
            cand --color 'Colour messages; ''auto'' heeds NO_COLOR'
            cand --cache-dir 'Folder of the Hub''s cache, where models are kept'
            cand --tune 'Find the best batch tokens, threads and window, and save them for embed to use'
            cand --json 'Print one JSON object instead of tables'
            cand -q 'Say nothing but errors and rejected records'
            cand --quiet 'Say nothing but errors and rejected records'
            cand -v 'Say more: load time, libraries that were passed over and why'
            cand --verbose 'Say more: load time, libraries that were passed over and why'
            cand --offline 'Never use the network: models must be here'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'embedctl;completions'= {
            cand --dir 'Write the scripts for all shells into this folder instead'
            cand --progress 'Show progress: on a terminal, always, or never'
            cand --log-format 'Form of everything on standard error; json prints one object a line'
            cand --color 'Colour messages; ''auto'' heeds NO_COLOR'
            cand --cache-dir 'Folder of the Hub''s cache, where models are kept'
            cand -q 'Say nothing but errors and rejected records'
            cand --quiet 'Say nothing but errors and rejected records'
            cand -v 'Say more: load time, libraries that were passed over and why'
            cand --verbose 'Say more: load time, libraries that were passed over and why'
            cand --offline 'Never use the network: models must be here'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'embedctl;man'= {
            cand --dir 'Write all pages into this folder instead'
            cand --progress 'Show progress: on a terminal, always, or never'
            cand --log-format 'Form of everything on standard error; json prints one object a line'
            cand --color 'Colour messages; ''auto'' heeds NO_COLOR'
            cand --cache-dir 'Folder of the Hub''s cache, where models are kept'
            cand -q 'Say nothing but errors and rejected records'
            cand --quiet 'Say nothing but errors and rejected records'
            cand -v 'Say more: load time, libraries that were passed over and why'
            cand --verbose 'Say more: load time, libraries that were passed over and why'
            cand --offline 'Never use the network: models must be here'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'embedctl;help'= {
            cand embed 'Embed the records of files or of standard input'
            cand download 'Fetch and verify models from the Hugging Face Hub'
            cand info 'Show what a model is, and what would run it here'
            cand devices 'Show what hardware and runtimes are here, which providers work, and what the others lack'
            cand bench 'Measure how fast a model is here, what limits it, and which settings are best'
            cand completions 'Print a shell''s completion script'
            cand man 'Print the manual page (roff)'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'embedctl;help;embed'= {
        }
        &'embedctl;help;download'= {
        }
        &'embedctl;help;info'= {
        }
        &'embedctl;help;devices'= {
        }
        &'embedctl;help;bench'= {
        }
        &'embedctl;help;completions'= {
        }
        &'embedctl;help;man'= {
        }
        &'embedctl;help;help'= {
        }
    ]
    $completions[$command]
}
