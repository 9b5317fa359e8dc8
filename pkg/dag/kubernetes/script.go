package kubernetes

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// script is the script of a task, with a part for each of its roles.
type script struct {
	strings.Builder
	parts   []scriptPart
	size    int  // of the parts, in bytes
	differs bool // some parts differ
}

type scriptPart struct {
	upTo int // the part is for ranks below this, from the end of the previous part
	text string
}

// variables returns the variables of a role's pods in order. A later variable replaces an earlier one of the same
// name.
func (p *role) variables() []podtext.Variable {
	all := slices.Concat(p.env, p.pod.env)
	last := make(map[string]int, len(all))
	for i, v := range all {
		last[v.Name] = i
	}
	out := make([]podtext.Variable, 0, len(last))
	for i, v := range all {
		if last[v.Name] == i {
			out = append(out, v)
		}
	}
	return out
}

// variablesOf returns the variables of an init container, after those that the workload's kind sets.
func (p *role) variablesOf(s step) []podtext.Variable { return slices.Concat(p.env, s.env) }

// fillTask sets the script and environment of a task that is one pod.
func (p *role) fillTask(t *dag.Task, at podtext.Place) {
	var b strings.Builder
	p.environment(t, at, &b, true)
	p.commands(at, &b)
	t.Run = b.String()
}

// addToScript adds a role to the script of a task that it shares with other roles.
func (p *role) addToScript(t *dag.Task, s *script, g *group, at podtext.Place) {
	var b strings.Builder
	p.environment(t, at, &b, len(g.roles) == 1)
	p.commands(at, &b)
	part := scriptPart{upTo: at.First + p.pods, text: b.String()}
	s.parts, s.size = append(s.parts, part), s.size+len(part.text)
	s.differs = s.differs || part.text != s.parts[0].text
}

// environment adds variables with known values to the task, and the others to its script. If the role shares its task
// with others, all variables are in the script, except those given at submission.
func (p *role) environment(t *dag.Task, at podtext.Place, b *strings.Builder, alone bool) {
	if p.usesAddress() {
		b.WriteString(ownAddress)
	}
	for _, v := range p.variables() {
		if v.Secret {
			t.AddSecrets(v.Name)
			continue
		}
		if s, ok := v.At(at); ok && (alone || v.Given) {
			if t.Env == nil {
				t.Env = map[string]string{}
			}
			t.Env[v.Name] = s
			continue
		}
		fmt.Fprintf(b, "export %s=%s\n", v.Name, v.Shell(at))
	}
	for _, f := range p.pod.files {
		if f.secret != "" {
			t.AddSecrets(f.secret)
		}
	}
	for _, s := range p.pod.before {
		for _, v := range s.env {
			if v.Secret {
				t.AddSecrets(v.Name)
			}
		}
	}
}

func (p *role) usesAddress() bool {
	asks := func(v podtext.Value) bool {
		return slices.ContainsFunc(v, func(p podtext.Part) bool { return p.Fact == podtext.Address })
	}
	all := p.variables()
	for _, s := range p.pod.before {
		all = append(all, s.env...)
	}
	return slices.ContainsFunc(all, func(v podtext.Variable) bool { return asks(v.Value) })
}

// ownAddress finds the pod's address in the list of all nodes.
const ownAddress = `rank=0
for POD_ADDRESS in $TRADEWIND_NODES; do
  [ $rank = "$TRADEWIND_NODE_RANK" ] && break
  rank=$((rank+1))
done
`

// commands writes the folders and files of a pod, its init containers, and its command.
func (p *role) commands(at podtext.Place, b *strings.Builder) {
	p.pod.makeFolders(b)
	for _, f := range p.pod.files {
		fmt.Fprintf(b, "mkdir -p %s\n", podtext.Quote(path.Dir(f.path)))
		text := podtext.Quote(f.text)
		if f.secret != "" {
			text = `"$` + f.secret + `"`
		}
		fmt.Fprintf(b, "printf %%s %s >%s\n", text, podtext.Quote(f.path))
		if f.mode != "" {
			fmt.Fprintf(b, "chmod %s %s\n", f.mode, podtext.Quote(f.path))
		}
	}
	for _, s := range p.pod.before {
		b.WriteString("(")
		b.WriteString(p.pod.changes(s.dir))
		for _, v := range s.env {
			if !v.Secret && !v.Given { // those are already in the environment
				fmt.Fprintf(b, "export %s=%s\n", v.Name, v.Shell(at))
			}
		}
		b.WriteString("exec" + spaced(s.command, p.variablesOf(s), at) + ") || exit\n")
	}
	b.WriteString(p.pod.changes(p.pod.dir))
	args := spaced(p.pod.args, p.variables(), at)
	if len(p.pod.command) > 0 {
		b.WriteString("exec" + spaced(p.pod.command, p.variables(), at) + args + "\n")
		return
	}
	fmt.Fprintf(
		b,
		"exec /bin/sh \"${%s:?is not set: the image's own command is known where docker or podman runs it}\"%s\n",
		entrypointEnv,
		args,
	)
}

// changes returns the command that changes to the working folder of a container, or to the image's default.
func (p *pod) changes(dir string) string {
	switch {
	case dir != "":
		return fmt.Sprintf("mkdir -p %s\ncd %s\n", podtext.Quote(dir), podtext.Quote(dir))
	case p.image != "":
		return "cd \"${" + workdirEnv + ":-.}\"\n"
	}
	return ""
}

// Variables with which the agent describes a task's image.
const (
	// workdirEnv is the working directory of the image.
	workdirEnv = "TRADEWIND_IMAGE_WORKDIR"
	// entrypointEnv is a script that runs the image's own command, with its default arguments or with given ones.
	entrypointEnv = "TRADEWIND_IMAGE_ENTRYPOINT"
)

// expanded expands variables in words. It must run when the role is complete, because controllers add variables to a
// pod, and the kubelet uses all of them for command and args. The value of a variable may only use earlier ones.
func expanded(words []string, env []podtext.Variable) (values []podtext.Value) {
	for _, s := range words {
		values = append(values, podtext.Expand(s, env))
	}
	return values
}

func spaced(words []string, env []podtext.Variable, at podtext.Place) string {
	var b strings.Builder
	for _, w := range expanded(words, env) {
		if b.WriteString(" " + w.Shell(at)); b.Len() > jobtext.MaxScriptBytes {
			break // the script is refused for its length
		}
	}
	return b.String()
}

// names writes the names and addresses of the pods to /etc/hosts, in place of the cluster's name service.
func (s *script) names(g *group, total int) {
	if g.domain == "-" || total < 2 && g.gang == nil {
		return
	}
	if g.gang != nil {
		s.namesInGang(g)
		return
	}
	_, _ = s.WriteString(
		"# The names by which the pods know each other.\nhosts() {\n  rank=0\n  for address in $TRADEWIND_NODES; do\n",
	)
	first := 0
	for i, p := range g.roles {
		head := "elif"
		if i == 0 {
			head = "if"
		}
		last := first + p.pods
		switch {
		case len(g.roles) == 1:
			_, _ = s.WriteString("    n=$rank\n")
		case i == len(g.roles)-1:
			_, _ = fmt.Fprintf(s, "    else n=$((rank-%d)) role=%s\n    fi\n", first, podtext.Quote(p.called))
		default:
			_, _ = fmt.Fprintf(s, "    %s [ $rank -lt %d ]; then n=$((rank-%d)) role=%s\n", head, last, first,
				podtext.Quote(p.called))
		}
		first = last
	}
	name := `$role-$n`
	if len(g.roles) == 1 {
		name = podtext.Quote(g.roles[0].called) + "-$n"
	}
	if g.jobsInName {
		// The index of a pod is per job; roles of a group may have different numbers of pods per job.
		s.perJob(g)
		name = `$name`
	}
	line := `"$address" "` + unquote(name) + `"`
	if g.domain != "" {
		_, _ = fmt.Fprintf(s, "    printf '%%s %%s %%s.%s\\n' %s \"%s\"\n", g.domain, line, unquote(name))
	} else {
		_, _ = fmt.Fprintf(s, "    printf '%%s %%s\\n' %s\n", line)
	}
	_, _ = s.WriteString("    rank=$((rank+1))\n  done\n}\n{ hosts >>/etc/hosts; } 2>/dev/null || :\n")
	s.hostfiles(g)
}

// namesInGang is names for a role that is one task of a gang: the agent writes the addresses of all nodes to a file.
func (s *script) namesInGang(g *group) {
	_, _ = s.WriteString("# The names by which the pods know each other.\nhosts() {\n" +
		"  while read -r address name; do\n    n=${name##*-}\n    case $name in\n")
	for _, p := range g.gang.roles {
		name := unquote(podtext.Quote(p.called)) + "-$n"
		if g.jobsInName {
			name = fmt.Sprintf("%s-$((n/%d))-$((n%%%d))", unquote(podtext.Quote(p.called)), p.perJob, p.perJob)
		}
		_, _ = fmt.Fprintf(s, "    %s-\"$n\") name=\"%s\" ;;\n", p.nameInGang(), name)
	}
	line := `"$address" "$name"`
	if g.domain != "" {
		_, _ = fmt.Fprintf(s, "    esac\n    printf '%%s %%s %%s.%s\\n' %s \"$name\"\n", g.domain, line)
	} else {
		_, _ = fmt.Fprintf(s, "    esac\n    printf '%%s %%s\\n' %s\n", line)
	}
	_, _ = s.WriteString("  done <\"$TRADEWIND_HOSTS\"\n}\n{ hosts >>/etc/hosts; } 2>/dev/null || :\n")
	s.hostfiles(g.gang)
}

// hostfiles writes a file with the names of each role's pods, if the group needs them.
func (s *script) hostfiles(g *group) {
	if g.hostfiles {
		_, _ = s.WriteString("mkdir -p /etc/volcano\n")
		for _, p := range g.roles {
			_, _ = fmt.Fprintf(
				s,
				"hosts | while read -r address name rest; do\n  case $name in %s-[0-9]*) echo \"$name\" ;; esac\ndone "+
					">/etc/volcano/%s.host\n",
				podtext.Quote(p.called),
				podtext.Quote(p.name),
			)
		}
	}
}

// perJob sets the variable name to a name that has the index of the pod's job and its index in the job.
func (s *script) perJob(g *group) {
	for i, p := range g.roles {
		switch {
		case len(g.roles) == 1:
			_, _ = fmt.Fprintf(s, "    name=%s-$((n/%d))-$((n%%%d))\n", podtext.Quote(p.called), p.perJob, p.perJob)
			return
		case i == 0:
			_, _ = s.WriteString("    case $role in\n")
		}
		_, _ = fmt.Fprintf(
			s,
			"    %s) name=%s-$((n/%d))-$((n%%%d)) ;;\n",
			podtext.Quote(p.called),
			podtext.Quote(p.called),
			p.perJob,
			p.perJob,
		)
	}
	_, _ = s.WriteString("    esac\n")
}

// unquote removes single quotes, for use within double quotes.
func unquote(s string) string { return strings.Trim(s, "'") }

// end writes the parts of the roles; if all are equal, only once.
func (s *script) end() {
	if !s.differs {
		_, _ = s.WriteString(s.parts[0].text)
		return
	}
	for i, p := range s.parts {
		switch i {
		case 0:
			_, _ = fmt.Fprintf(s, "if [ \"$TRADEWIND_NODE_RANK\" -lt %d ]; then\n", p.upTo)
		case len(s.parts) - 1:
			_, _ = s.WriteString("else\n")
		default:
			_, _ = fmt.Fprintf(s, "elif [ \"$TRADEWIND_NODE_RANK\" -lt %d ]; then\n", p.upTo)
		}
		_, _ = s.WriteString(p.text)
	}
	_, _ = s.WriteString("fi\n")
}
