package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Visit returns the program that runs a command line in the box. It works like Command, but has an input. With
// terminal, the input is the terminal on which the program is started. Name must be unique among the box's scripts.
// After is the program that ends the remaining processes if the visit's program was ended from outside.
func (b *Box) Visit(name string, command []string, terminal bool, dir string, env []string) (argv, after []string,
	err error) {
	script, pid := filepath.Join(b.scripts, name), filepath.Join(b.scripts, name+".pid")
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = Quote(w)
	}
	text := "echo $$ >" + Quote(pid) + "\nrm -f " + Quote(script) + "\nexec " + strings.Join(words, " ") + "\n"
	if len(command) == 0 {
		text = strings.Replace(text, "exec \n", "[ -x /bin/bash ] && exec /bin/bash -i\nexec /bin/sh -i\n", 1)
	}
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return nil, nil, err
	}
	if argv, err = b.Command(script, dir, env); err != nil {
		return nil, nil, err
	}
	flag := "--interactive"
	if terminal {
		flag = "-it"
	}
	after = []string{b.engine.path, "exec", b.name, "/bin/sh", "-c",
		`read -r p <"$1" && kill -HUP "$p"; rm -f "$1"`, "sh", pid}
	return slices.Insert(argv, 2, flag), after, nil
}
