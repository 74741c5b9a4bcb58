# Completion of the switchyard command for fish: loaded by fish from where it is installed.

# Is the command line that of the command $argv, up to a -- behind which another program's command line begins?
function __switchyard_in
    set -l words (commandline -opc)
    contains -- -- $words; and return 1
    set -q words[2]; and contains -- $words[2] $argv
end

function __switchyard_first
    test (count (commandline -opc)) -eq 1
end

function __switchyard_has_program
    contains -- -- (commandline -opc)
end

# Completes the program behind --, as if it were the whole line.
function __switchyard_program
    set -l words (commandline -opc) (commandline -ct)
    set -l dashes (contains --index -- -- $words)
    complete --do-complete (string join ' ' -- (string escape -- $words[(math $dashes + 1)..-2]) $words[-1])
end

complete -c switchyard -f
complete -c switchyard -n __switchyard_has_program -a '(__switchyard_program)'

complete -c switchyard -n __switchyard_first -a run -d 'run a program under mpirun with Switchyard'
complete -c switchyard -n __switchyard_first -a info -d 'tell what was found here and every setting'
complete -c switchyard -n __switchyard_first -a doctor -d 'check that Switchyard can work here'
complete -c switchyard -n __switchyard_first -a topo -d 'draw the node with its GPUs, and which suits which rank'
complete -c switchyard -n __switchyard_first -a tune -d 'measure from which size on NCCL is the faster one'
complete -c switchyard -n __switchyard_first -a report -d 'print or compare reports of runs'
complete -c switchyard -n __switchyard_first -a status -d 'tell what each rank of a job is in'
complete -c switchyard -n __switchyard_first -l help -d 'tell the commands'
complete -c switchyard -n __switchyard_first -l version -d 'tell the version'
complete -c switchyard -n '__switchyard_in run info doctor topo tune report status' -l help -d 'tell the options'

complete -c switchyard -n '__switchyard_in run' -l virtual-gpus -x -d 'give each node virtual GPUs'
complete -c switchyard -n '__switchyard_in run' -l gpus -x -a 'near spread all none' -d 'which GPUs each rank sees'
complete -c switchyard -n '__switchyard_in run' -l report -a 'text json:' -d 'report at the end'
complete -c switchyard -n '__switchyard_in run' -l trace -r -F -d 'write a trace of the run'
complete -c switchyard -n '__switchyard_in run' -l debug -a 'staged' -d 'print each call when its transport is chosen'
complete -c switchyard -n '__switchyard_in run' -l nccl -r -F -d 'the NCCL to use'
complete -c switchyard -n '__switchyard_in run' -l set -x -d 'a setting for all ranks'
complete -c switchyard -n '__switchyard_in run' -l dry-run -d 'print the mpirun line and do nothing'
complete -c switchyard -n '__switchyard_in run' -l mpirun -r -F -d 'the mpirun to use'
complete -c switchyard -n '__switchyard_in run' -s n -x -d 'how many processes'

complete -c switchyard -n '__switchyard_in info' -l format -x -a 'text json' -d 'what is printed'
complete -c switchyard -n '__switchyard_in info' -l virtual-gpus -x -d 'as under run --virtual-gpus'

complete -c switchyard -n '__switchyard_in doctor' -F
complete -c switchyard -n '__switchyard_in doctor' -l json -d 'one object, for machines'
complete -c switchyard -n '__switchyard_in doctor' -l virtual-gpus -x -d 'as under run --virtual-gpus'
complete -c switchyard -n '__switchyard_in doctor' -l mpirun -r -F -d 'the mpirun to use'
complete -c switchyard -n '__switchyard_in doctor' -l timeout -x -d 'how long two ranks may take'

complete -c switchyard -n '__switchyard_in topo' -l xml -r -F -d 'a machine that hwloc recorded'
complete -c switchyard -n '__switchyard_in topo' -s n -l np -x -d 'ranks on the node'
complete -c switchyard -n '__switchyard_in topo' -l bind -x -d 'what each rank is bound to'
complete -c switchyard -n '__switchyard_in topo' -l visible -x -d 'the GPUs that each rank sees'
complete -c switchyard -n '__switchyard_in topo' -l format -x -a 'text json svg' -d 'what is printed'

complete -c switchyard -n '__switchyard_in tune' -s n -x -d 'ranks, one for each GPU'
complete -c switchyard -n '__switchyard_in tune' -s o -l output -r -F -d 'the file to write'
complete -c switchyard -n '__switchyard_in tune' -l largest -x -d 'the largest size to measure'
complete -c switchyard -n '__switchyard_in tune' -l rounds -x -d 'how often each is measured'
complete -c switchyard -n '__switchyard_in tune' -l virtual-gpus -x -d 'on virtual GPUs'
complete -c switchyard -n '__switchyard_in tune' -l virtual -d 'write a file from virtual GPUs too'
complete -c switchyard -n '__switchyard_in tune' -l mpirun -r -F -d 'the mpirun to use'
complete -c switchyard -n '__switchyard_in tune' -l timeout -x -d 'how long one job may take'

complete -c switchyard -n '__switchyard_in report' -F
complete -c switchyard -n '__switchyard_in report' -l html -r -F -d 'write one page for a browser'

complete -c switchyard -n '__switchyard_in status' -l all -d 'all jobs, also those that have ended'
complete -c switchyard -n '__switchyard_in status' -l last -x -d 'print the last operations of each rank'
complete -c switchyard -n '__switchyard_in status' -l report -d 'print the report of the calls so far'
complete -c switchyard -n '__switchyard_in status' -l hosts -x -a '(__fish_print_hostnames)' -d 'look on these hosts, by mpirun'
complete -c switchyard -n '__switchyard_in status' -l mpirun -r -F -d 'the mpirun to use'
complete -c switchyard -n '__switchyard_in status' -l save -r -F -d 'copy what is here to a folder'
complete -c switchyard -n '__switchyard_in status' -l from -r -F -d 'read what --save has copied'
complete -c switchyard -n '__switchyard_in status' -l format -x -a 'text json' -d 'what is printed'
