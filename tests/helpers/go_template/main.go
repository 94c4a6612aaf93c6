// Renders dialogues by a template in Go's syntax, with Ollama's names for their parts. Reads a JSON list of dialogues from the
// standard input; writes a JSON list: first the text behind `if .ToolCalls`, at which Ollama finds calls, then the dialogues.
package main

import (
	"encoding/json"
	"os"
	"strings"
	"text/template"
	"text/template/parse"
)

type object map[string]any

func (o object) String() string {
	text, _ := json.Marshal(map[string]any(o))
	return string(text)
}

type call struct {
	Function struct {
		Name      string
		Arguments object
	}
}

type message struct {
	Role      string
	Content   string
	ToolCalls []call `json:"tool_calls"`
}

type dialogue struct {
	Messages []*message
	Tools    []object
}

// firstText is the text with which a branch begins, if it does begin with text.
func firstText(node parse.Node) string {
	switch n := node.(type) {
	case *parse.TextNode:
		return string(n.Text)
	case *parse.RangeNode:
		return firstText(n.List.Nodes[0])
	}
	return ""
}

func callText(list *parse.ListNode) string {
	if list == nil {
		return ""
	}
	for _, node := range list.Nodes {
		var branch *parse.BranchNode
		switch n := node.(type) {
		case *parse.IfNode:
			if n.Pipe.String() == ".ToolCalls" {
				return firstText(n.List.Nodes[0])
			}
			branch = &n.BranchNode
		case *parse.RangeNode:
			branch = &n.BranchNode
		default:
			continue
		}
		if found := callText(branch.List) + callText(branch.ElseList); found != "" {
			return found
		}
	}
	return ""
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	source, err := os.ReadFile(os.Args[1])
	check(err)
	parsed, err := template.New("").Option("missingkey=zero").Parse(string(source))
	check(err)
	var dialogues []dialogue
	check(json.NewDecoder(os.Stdin).Decode(&dialogues))
	answers := []string{callText(parsed.Root)}
	for _, each := range dialogues {
		var text strings.Builder
		check(parsed.Execute(&text, map[string]any{"Messages": each.Messages, "Tools": each.Tools}))
		answers = append(answers, text.String())
	}
	check(json.NewEncoder(os.Stdout).Encode(answers))
}
