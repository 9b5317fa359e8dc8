package kubernetes

import (
	"strconv"
	"strings"
)

// value is a text of which parts are known only where the pod runs.
type value []part

// part is text, or what a shell makes of something.
type part struct {
	text string
	ask  ask
}

// ask is what only the pod knows of itself.
type ask int

const (
	literal   ask = iota
	ofIndex       // its index among the pods of its job
	ofJob         // the index of its job among the copies of a role
	ofRank        // its rank among the pods of its role
	ofName        // its name
	ofAddress     // its address
	ofMachine     // the node's name
	ofHead        // the address of the group's first pod
	ofTotal       // how many pods the group has
	ofVar         // a variable of the shell; the text is its name
)

func words(s string) value { return value{{text: s}} }

// place is where a pod, or a range of pods that differ by rank only, runs.
type place struct {
	name       string // of the role's pods, before the index
	first      int    // rank of the first of them in their task
	perJob     int    // pods of one job of the role
	alone      int    // the rank of the pod in its role where it is a task of its own, else negative
	total      int    // pods of the task, or of the role whose pods are tasks of their own
	jobsInName bool   // the name has the index of the job, too
}

// shell is a value as one word of a script.
func (v value) shell(p place) string {
	if len(v) == 0 {
		return "''"
	}
	if s, ok := v.at(p); ok {
		return quote(s)
	}
	var b strings.Builder
	for _, part := range v {
		if s, ok := (value{part}).at(p); ok {
			if s != "" {
				b.WriteString(quote(s))
			}
			continue
		}
		b.WriteString(`"` + part.ask.shell(p, part.text) + `"`)
	}
	return b.String()
}

// at is the text of a value at a place, where all of it is known there.
func (v value) at(p place) (string, bool) {
	var b strings.Builder
	for _, part := range v {
		switch {
		case part.ask == literal:
			b.WriteString(part.text)
		case part.ask == ofTotal:
			b.WriteString(strconv.Itoa(p.total))
		case p.alone < 0:
			return "", false
		case part.ask == ofIndex:
			b.WriteString(strconv.Itoa(p.alone % p.perJob))
		case part.ask == ofJob:
			b.WriteString(strconv.Itoa(p.alone / p.perJob))
		case part.ask == ofRank:
			b.WriteString(strconv.Itoa(p.alone))
		case part.ask == ofName:
			b.WriteString(p.podName(p.alone))
		default:
			return "", false
		}
	}
	return b.String(), true
}

func (p place) podName(rank int) string {
	if p.jobsInName {
		return p.name + "-" + strconv.Itoa(rank/p.perJob) + "-" + strconv.Itoa(rank%p.perJob)
	}
	return p.name + "-" + strconv.Itoa(rank)
}

// shell is what a shell expands to the answer, within double quotes.
func (a ask) shell(p place, name string) string {
	rank := "$TRADEWIND_NODE_RANK"
	if p.first > 0 {
		rank = "$((TRADEWIND_NODE_RANK-" + strconv.Itoa(p.first) + "))"
	}
	inJob, ofJobs := rank, "0"
	if p.perJob == 1 {
		inJob, ofJobs = "0", rank
	} else if p.first+p.perJob < p.total || p.jobsInName {
		from := "(TRADEWIND_NODE_RANK-" + strconv.Itoa(p.first) + ")"
		inJob, ofJobs = "$(("+from+"%"+strconv.Itoa(p.perJob)+"))", "$(("+from+"/"+strconv.Itoa(p.perJob)+"))"
	}
	switch a {
	case ofIndex:
		return inJob
	case ofJob:
		return ofJobs
	case ofRank:
		return rank
	case ofName:
		if p.jobsInName {
			return p.name + "-" + ofJobs + "-" + inJob
		}
		return p.name + "-" + rank
	case ofAddress:
		return "$POD_ADDRESS"
	case ofMachine:
		return "$TRADEWIND_MACHINE"
	case ofHead:
		return "$TRADEWIND_HEAD"
	case ofTotal:
		return "$TRADEWIND_NUM_NODES"
	}
	return "${" + name + "}"
}

// quote is a word of a script that a shell takes as it is.
func quote(s string) string {
	plain := s != ""
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("_-./:,@%+", c) >= 0
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// variable is one of a pod's environment.
type variable struct {
	name string
	value
	secret bool // given apart; its value stays out of the script
}

// expand puts the values of variables in the place of $(NAME), as the kubelet does: $$ is a $, and what is not a
// variable stays as it is.
func expand(s string, env []variable) value {
	find := func(name string) (value, bool) {
		for i := len(env) - 1; i >= 0; i-- {
			if env[i].name == name {
				if env[i].secret {
					return value{{text: name, ask: ofVar}}, true
				}
				return env[i].value, true
			}
		}
		return nil, false
	}
	var out value
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			out = append(out, part{text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			text.WriteByte(s[i])
			continue
		}
		if s[i+1] == '$' {
			text.WriteByte('$')
			i++
			continue
		}
		end := strings.IndexByte(s[i:], ')')
		if s[i+1] != '(' || end < 0 {
			text.WriteByte('$')
			continue
		}
		v, ok := find(s[i+2 : i+end])
		if !ok {
			text.WriteString(s[i : i+end+1])
		} else {
			flush()
			out = append(out, v...)
		}
		i += end
	}
	flush()
	if out == nil {
		out = words("")
	}
	return out
}
