# Prints a snapshot of the sysfs tree $root: of the devices that are the arguments, or of all. Only
# builtins are used for each file, since a process takes a millisecond and a host has thousands of files.
LC_ALL=C
CDPATH=
release=
newline='
'
# As Source has it. $release is empty where the file cannot be read.
[ "$root" != /sys ] || { read -r release < /proc/sys/kernel/osrelease; } 2> /dev/null
[ -z "$release" ] || printf '/sys of Linux %s\n\n' "$release"
# As argumentsOf has it: words of the kernel's arguments, of which none is expanded as a file name.
arguments= line=
[ "$root" != /sys ] || { read -r line < /proc/cmdline; } 2> /dev/null
set -f
for word in $line; do
  case " $argument_names " in *" ${word%%=*} "*) arguments="$arguments $word" ;; esac
done
set +f
cd -P "$root" || exit 1
root=$PWD

# files DIRECTORY NAME...: prints the files that can be read.
files() {
  at=$1
  shift
  for name; do
    [ -f "$at/$name" ] && [ -r "$at/$name" ] || continue
    content=
    { while IFS= read -r line || [ -n "$line" ]; do content=$content$line$newline; done < "$at/$name"; } 2> /dev/null
    printf -- '-- %s --\n%s' "$at/$name" "$content"
    # dash reads byte by byte, and a node's cpulist then has nothing (Linux drivers/base/node.c, a binary attribute).
    [ -n "$content" ] || cat "$at/$name" 2> /dev/null
  done
}

# resolve LINK: sets $target to where it leads, from the root.
resolve() {
  [ -L "$1" ] && cd -P "$1" 2> /dev/null || return 1
  target=${PWD#"$root"/}
  cd "$root"
}

# link LINK: prints it, if it leads to a directory, and sets $target.
link() {
  resolve "$1" || return 1
  up=../
  rest=${1%/*}
  while [ "$rest" != "${rest#*/}" ]; do
    up=../$up
    rest=${rest#*/}
  done
  printf -- '-- %s -> %s%s --\n' "$1" "$up" "$target"
}

# add ADDRESS...: adds the functions that exist to $functions, each once.
add() {
  for address; do
    case "$functions " in *" $address "*) continue ;; esac
    [ -L "bus/pci/devices/$address" ] && functions="$functions $address"
  done
}

# root_complex PATH: adds the first function of the root bus of a path.
root_complex() {
  at= bus=
  IFS=/
  set -- $1
  unset IFS
  for part; do
    at=${at:+$at/}$part
    case $part in pci*:*) bus=$at ;; esac
  done
  for entry in "$bus"/*:*:*.*; do
    add "${entry##*/}"
    return
  done
}

# request ADDRESS: adds a function, the others of its device, its physical function, the members of
# its IOMMU group and the first function of its root bus, as host.Read reads them.
request() {
  resolve "bus/pci/devices/$1" || return 0
  root_complex "$target"
  add "$1"
  for number in 0 1 2 3 4 5 6 7; do add "${1%.*}.$number"; done
  resolve "bus/pci/devices/$1/physfn" && add "${target##*/}"
  resolve "bus/pci/devices/$1/iommu_group" || return 0
  group "${target##*/}"
  for member in "$target"/devices/*; do add "${member##*/}"; done
}

# read_word FILE: reads the first word of a file into $word.
read_word() {
  word=
  { read -r word _ < "$1"; } 2> /dev/null
}

# nvswitches: adds the NVSwitches, if a function is an NVIDIA GPU, as host.Read reads them.
nvswitches() {
  has_gpu=
  for function in $functions; do
    read_word "bus/pci/devices/$function/vendor"
    [ "$word" = 0x10de ] || continue
    read_word "bus/pci/devices/$function/class"
    case $word in 0x03???? | 0x120000) has_gpu=yes ;; esac
  done
  [ -n "$has_gpu" ] || return 0
  for directory in bus/pci/devices/*; do
    read_word "$directory/class"
    [ "$word" = 0x068000 ] || continue
    read_word "$directory/vendor"
    [ "$word" != 0x10de ] || add "${directory##*/}"
  done
}

# group NUMBER: adds an IOMMU group to $groups, once.
group() {
  case "$groups " in *" $1 "*) ;; *) groups="$groups $1" ;; esac
}

# names DIRECTORY: the names in it, in $found.
names() {
  found=
  for entry in "$1"/*; do [ -e "$entry" ] && found="$found ${entry##*/}"; done
}

# registers CONFIG: prints the capabilities in a configuration space, as list has them, if all of it can
# be read, which takes CAP_SYS_ADMIN. od's words are those of a little-endian machine.
registers() {
  config=$1
  set -- $(od -An -v -tx4 -N4096 "$config" 2> /dev/null)
  [ $# = 1024 ] || return 1

  atomics= blocked= count=0
  eval "at=\$((0x\${14} & 0xfc))"
  while [ $at -ge 64 ] && [ $count -lt 48 ]; do
    count=$((count + 1))
    eval "header=\$((0x\${$((at / 4 + 1))}))"
    if [ $((header & 0xff)) = 16 ] && [ $at -le 196 ]; then
      eval "atomics=\$((0x\${$((at / 4 + 10))} & 0x3c0)) blocked=\$((0x\${$((at / 4 + 11))} & 0x80))"
      break
    fi
    at=$((header >> 8 & 0xfc))
  done

  acs= ats= at=256 count=0
  while [ $at -ge 256 ] && [ $at -le 4088 ] && [ $count -lt 960 ]; do
    count=$((count + 1))
    eval "header=\$((0x\${$((at / 4 + 1))})) body=\$((0x\${$((at / 4 + 2))}))"
    case $((header & 0xffff)) in
      13) acs=$body ;;
      15) ats=yes ;;
    esac
    at=$((header >> 20))
  done

  printf -- '-- %s/extended_capabilities --\n' "${config%/config}"
  [ -z "$acs" ] || printf 'acs 0x%04x 0x%04x\n' $((acs & 0x7f)) $((acs >> 16 & 0x7f))
  [ -z "$ats" ] || echo ats
  [ -z "$atomics" ] || printf 'atomics 0x%04x 0x%04x\n' $atomics $blocked
}

functions= groups= mediated=
if [ $# = 0 ]; then
  names bus/pci/devices
  functions=$found
  names bus/mdev/devices
  mediated=$found
  names kernel/iommu_groups
  groups=$found
fi
for id; do
  case $id in
    *:*) request "$id" ;;
    *)
      mediated="$mediated $id"
      resolve "bus/mdev/devices/$id" || continue
      parent=${target%/*}
      request "${parent##*/}"
      resolve "$target/iommu_group" && group "${target##*/}"
      ;;
  esac
done
if [ $# != 0 ]; then
  nvswitches
  # The bridges above each function: the components of its path that are functions, too.
  for function in $functions; do
    resolve "bus/pci/devices/$function" || continue
    IFS=/
    set -- $target
    unset IFS
    for part; do case $part in *:*:*.*) add "$part" ;; esac; done
  done
fi

[ -z "$arguments" ] || printf -- '-- kernel/arguments --\n%s\n' "${arguments# }"
for name in class/iommu/*; do
  link "$name" || continue
  for kind in $iommu_kinds; do [ -d "$target/$kind" ] && files "$target/$kind" $iommu_files; done
done
files devices/system/node $nodes_files
for directory in devices/system/node/node[0-9]*; do files "$directory" $node_files; done
files devices/system/cpu modalias
for directory in devices/system/cpu/cpu[0-9]*/topology; do files "$directory" physical_package_id; done
configs=
for function in $functions; do
  link "bus/pci/devices/$function" || continue
  directory=$target
  files "$directory" $function_files
  for name in $function_links; do link "$directory/$name"; done
  for kind in "$directory"/mdev_supported_types/*; do
    [ -d "$kind" ] && files "$kind" $type_files
  done
  [ -d "$directory/nvidia" ] && files "$directory/nvidia" $vgpu_files
  [ -f "$directory/config" ] && configs="$configs $directory/config"
done
for id in $mediated; do
  link "bus/mdev/devices/$id" || continue
  directory=$target
  for name in $mdev_links; do link "$directory/$name"; done
done
for number in $groups; do
  files "kernel/iommu_groups/$number" $group_files
  for member in "kernel/iommu_groups/$number/devices"/*; do
    case $member in *:*:*.* | *-*-*-*-*) link "$member" ;; esac
  done
done
# A snapshot has what is known of the configuration space in its place: the size, where it is that of
# conventional PCI, or capabilities. Where one cannot be read none can.
[ -z "$configs" ] || stat -c '%s %n' $configs 2> /dev/null | {
  may_read=yes
  while read -r size name; do
    case $size in
      256) printf -- '-- %s_size --\n256\n' "$name" ;;
      4096) [ -z "$may_read" ] || registers "$name" || may_read= ;;
    esac
  done
}
exit 0
