package kubernetes

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes/podtext"
)

// script is a task's, with a part for each of its roles.
type script struct {
	strings.Builder
	parts []scriptPart
}

type scriptPart struct {
	upTo int // ranks below it
	text string
}

// variables are those of a role's pods in their order, later ones over earlier ones of the same name.
func (p *role) variables() []podtext.Variable {
	var out []podtext.Variable
	for _, v := range slices.Concat(p.env, p.pod.env) {
		out = slices.DeleteFunc(out, func(o podtext.Variable) bool { return o.Name == v.Name })
		out = append(out, v)
	}
	return out
}

// variablesOf are those of an init container, over what the kind gives the pods.
func (p *role) variablesOf(s step) []podtext.Variable { return slices.Concat(p.env, s.env) }

// settle fills in a task that is one pod.
func (p *role) settle(t *dag.Task, at podtext.Place) {
	var b strings.Builder
	p.environment(t, at, &b, true)
	p.commands(at, &b)
	t.Run = b.String()
}

// settleIn adds a role to the script of a task with others.
func (p *role) settleIn(t *dag.Task, s *script, g *group, at podtext.Place) {
	var b strings.Builder
	p.environment(t, at, &b, len(g.roles) == 1)
	p.commands(at, &b)
	s.parts = append(s.parts, scriptPart{upTo: at.First + p.pods, text: b.String()})
}

// environment gives a task what is known of the variables, and its script the rest. The variables of a role that shares
// its task are all set by the script, but for those that are given.
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
		return slices.ContainsFunc(v, func(p podtext.Part) bool { return p.Ask == podtext.Address })
	}
	all := p.variables()
	for _, s := range p.pod.before {
		all = append(all, s.env...)
	}
	return slices.ContainsFunc(all, func(v podtext.Variable) bool { return asks(v.Value) })
}

// ownAddress finds the pod's address among those of all nodes.
const ownAddress = `rank=0
for POD_ADDRESS in $TRADEWIND_NODES; do
  [ $rank = "$TRADEWIND_NODE_RANK" ] && break
  rank=$((rank+1))
done
`

// commands are the folders and files of a pod, its init containers, and its command.
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
			if !v.Secret && !v.Given { // such are there anyway
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

// changes goes to a folder that a container names, or else to the image's own.
func (p *pod) changes(dir string) string {
	switch {
	case dir != "":
		return fmt.Sprintf("mkdir -p %s\ncd %s\n", podtext.Quote(dir), podtext.Quote(dir))
	case p.image != "":
		return "cd \"${" + workdirEnv + ":-.}\"\n"
	}
	return ""
}

// What the agent says of a task's image.
const (
	// workdirEnv is the working directory of the image.
	workdirEnv = "TRADEWIND_IMAGE_WORKDIR"
	// entrypointEnv is a script that runs what the image runs by itself, with its arguments or with those it is given.
	entrypointEnv = "TRADEWIND_IMAGE_ENTRYPOINT"
)

// expanded puts variables into words. Controllers add theirs to a pod's, and the kubelet knows all of them when it
// expands command and args: this is done when a role is complete. A variable's own value has only those before it.
func expanded(words []string, env []podtext.Variable) (values []podtext.Value) {
	for _, s := range words {
		values = append(values, podtext.Expand(s, env))
	}
	return values
}

func spaced(words []string, env []podtext.Variable, at podtext.Place) string {
	var b strings.Builder
	for _, w := range expanded(words, env) {
		b.WriteString(" " + w.Shell(at))
	}
	return b.String()
}

// names tells a pod the names and addresses of the others, as the cluster's name service would.
func (s *script) names(g *group, total int) {
	if g.domain == "-" || total < 2 && g.of == nil {
		return
	}
	if g.of != nil {
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
		// A role's pods are counted by job; roles of a group may differ in how many a job has.
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

// namesInGang is names for one of several roles that are tasks of a gang: the agent has written where each node is.
func (s *script) namesInGang(g *group) {
	_, _ = s.WriteString("# The names by which the pods know each other.\nhosts() {\n" +
		"  while read -r address name; do\n    n=${name##*-}\n    case $name in\n")
	for _, p := range g.of.roles {
		name := unquote(podtext.Quote(p.called)) + "-$n"
		if g.jobsInName {
			name = fmt.Sprintf("%s-$((n/%d))-$((n%%%d))", unquote(podtext.Quote(p.called)), p.perJob, p.perJob)
		}
		_, _ = fmt.Fprintf(s, "    %s-\"$n\") name=\"%s\" ;;\n", p.inGang(), name)
	}
	line := `"$address" "$name"`
	if g.domain != "" {
		_, _ = fmt.Fprintf(s, "    esac\n    printf '%%s %%s %%s.%s\\n' %s \"$name\"\n", g.domain, line)
	} else {
		_, _ = fmt.Fprintf(s, "    esac\n    printf '%%s %%s\\n' %s\n", line)
	}
	_, _ = s.WriteString("  done <\"$TRADEWIND_HOSTS\"\n}\n{ hosts >>/etc/hosts; } 2>/dev/null || :\n")
	s.hostfiles(g.of)
}

// hostfiles writes a file with the names of each role's pods, where somebody reads them.
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

// perJob has a name with the index of the pod's job and its own in it.
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

// unquote is a word that needs no quotes within double ones.
func unquote(s string) string { return strings.Trim(s, "'") }

// end writes the parts of the roles: those that are alike once.
func (s *script) end() {
	alike := true
	for _, p := range s.parts {
		alike = alike && p.text == s.parts[0].text
	}
	if alike {
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
