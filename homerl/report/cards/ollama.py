"""The Modelfile with which Ollama runs an exported GGUF file.

Invariants: its template, in Go's syntax, writes the dialogue that our Jinja template writes, but for two things that Go's
JSON writes otherwise: no spaces, and `<`, `>` and `&` escaped. Ollama's parser of tool calls begins at the first text behind
`if .ToolCalls`, so that text is the opening tag.
"""

from __future__ import annotations

from homerl.play.messages import IM_END, NAMED, has_empty_thought, shows_tool_names, shows_tools

MOST_CONTEXT = 16_384  # tokens; Ollama's own default cuts a home's prompt off without a word
TOOLS = """

# Tools

You may call the functions below. Their signatures, as JSON, one a line:
<tools>
{{- range $.Tools }}
{{ . }}
{{- end }}
</tools>

To call one, answer with:
<tool_call>
{"name": <function-name>, "arguments": <arguments as JSON object>}
</tool_call>"""
TEMPLATE = """{{- $previous := "" }}
{{- range $at, $message := .Messages }}
{{- $rest := slice $.Messages $at }}
{{- if eq .Role "system" }}<|im_start|>system
{{ .Content }}{{ if $.Tools }}SHOWN{{ end }}<|im_end|>
{{ else if eq .Role "user" }}<|im_start|>user
{{ .Content }}<|im_end|>
{{ else if eq .Role "assistant" }}<|im_start|>assistant
{{ .Content }}{{ if and .Content (len $message.ToolCalls) }}{{ "\\n" }}{{ end }}
{{- if .ToolCalls }}{{ range $place, $call := .ToolCalls }}<tool_call>
{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
</tool_call>{{ if gt (len (slice $message.ToolCalls $place)) 1 }}{{ "\\n" }}{{ end }}{{ end }}{{ end }}<|im_end|>
{{ else if eq .Role "tool" }}{{ if ne $previous "tool" }}<|im_start|>user{{ end }}
<tool_response>
{{ .Content }}
</tool_response>
{{- if eq (len $rest) 1 }}<|im_end|>
{{ else if ne (index $rest 1).Role "tool" }}<|im_end|>
{{ end }}{{ end }}
{{- $previous = .Role }}
{{- end }}<|im_start|>assistant
"""


def render_modelfile(gguf: str, template: str, context: int) -> str:
    """The Modelfile beside a GGUF file, for a model with homerl's chat template and this context length."""
    return "\n".join(
        [
            f"FROM ./{gguf}",
            f'TEMPLATE """{go_chat_template(template)}"""',
            f'PARAMETER stop "{IM_END}"',
            f"PARAMETER num_ctx {min(context, MOST_CONTEXT)}",
            "",
        ]
    )


def go_chat_template(template: str) -> str:
    """homerl's chat template in Go's syntax; `template` tells whether it shows the tools."""
    shown = TOOLS if shows_tools(template) else ""
    if shows_tool_names(template):
        signatures, names = next(iter(NAMED.items()))
        shown = shown.replace(signatures, names).replace("{{ . }}", "{{ .Function.Name }}")
    text = TEMPLATE.replace("SHOWN", shown)
    opening = "<|im_start|>assistant\n"
    return text.replace(opening, f"{opening}<think>\n\n</think>\n\n") if has_empty_thought(template) else text
