"""Patterns that recognise claims, denials, guesses and conclusions in lower-case English and Chinese text."""

from __future__ import annotations

import re


def either(english: str, chinese: str) -> re.Pattern[str]:
    """A pattern that matches the English alternatives as whole words, and the Chinese ones anywhere."""
    return re.compile(rf"\b(?:{english})\b|{chinese}")


MEASURE = "[个盏台间只把扇处部套]"
CLAUSE = re.compile(r"[;:!?\n—–…，。；：！？、]|,(?!\d{3})|\.(?!\d)|\b(?:and|but|while|whereas)\b|而|但")
SENTENCE = re.compile(
    r"[;!?\n—。；！？]|\.(?!\d)|\b(?:but|while|whereas|however|although)\b"
    r"|,(?= ?(?:and )?not\b)|,? (?:and )?(?=(?:no others?|none of the (?:others?|rest)|nothing else|none else)\b)"
    r"|，(?=不|没|而不|其他|其余|其它|别的|另外)|但|而(?!是)"
)
BRACKET = re.compile(r"\([^()]*\)|（[^（）]*）|\[[^\[\]]*\]")
EXCEPT = either("except(?: for)?|other than|apart from|besides", "除了|除[^湿霜尘菌]")
COURTESY = r"(?! (?:problems?|worries|doubt|need|wonder)\b)"  # after "no", which then denies nothing
NEGATION = either(
    rf"not(?! (?:only|just)\b)|no{COURTESY}|none|never|neither|nor|cannot|without|rather than|instead of|\w+n't",
    "没(?!问题|错)|不(?!好意思|过|客气|用谢|仅|但|光|只)|未|非(?!常)|并无",
)
PAUSE = re.compile(r"[,，:：]")
DENIED = re.compile(r"(?:\bnot|n't|不是|并非|没有)\s*(?:exactly |quite )?$")
# numbers that are a bound or a total and no claim: "more than 5", "of the 5", "5 of which"
BOUND = re.compile(
    r"\b(?:than|above|below|over|under|exceed\w*|at least|at most|past|between|out of|none of)\s*$"
    r"|\b(?:of (?:all|these|the)(?: the)?|\d of|(?:two|three|four|five|one) of)\s*$|(?:^|[,.;:] ?)of\s*$"
    r"|(?:高于|低于|超过|大于|小于|不到|至少|最多|多于|少于)\s*$"
)
WHOLE = re.compile(r"(?<![\d/.])\d+ ?/ ?$")  # before the total: "3/5 lights"
SHARE = re.compile(rf"^\s*{MEASURE}?[^，。；：,.;:]{{0,4}}(?:之?中|里)(?:有|,|，)|^\s*%?\s*(?:以上|以下)")
LINK = re.compile(r"^\s*(?:[-–~,、/]|to|or|and|or maybe|maybe|或者?|到|至|和)?\s*$")
GUESS = either(
    "or|maybe|perhaps|possibly|might|could be|either|actually|sorry|i mean|no wait|correction|alternatively|if not",
    "可能|或者?|也许|大概是|不对|应该是|要么|不然",
)
DOUBT = either("or|maybe|perhaps|either", "或|也许|可能")
ENDING = either(
    "total|altogether|in all|makes|overall|therefore|average|sum|equals|so|difference",
    "=|一共|总共|共有?|合计|所以|平均|总计|因此|差",
)
LISTED = re.compile(r"[:：]|\b(?:because|since)\b|因为")
EQUATION = re.compile(r"(?<![\w.%°℃() +−–×÷/-])[(\d][\d.%°c℃() +−–×÷/-]*=")
OTHERS = either(
    "off|not|other|others|rest|remaining|closed|unlocked|target|set",
    "关|其余|其他|另外|剩|没|不|目标|设",
)
NONE_OF = re.compile(r"[^，。；]{0,6}(?:也|都)(?:没|不|未)")
NOUGHT = either(
    r"none|nothing|zero|nobody|no (?!(?:longer|idea|information|data|problem|way|access|one|wait|doubt)\b)[a-z]+"
    r"|not (?:any|a single|one)|\w+n't (?:any|a single|one)",
    rf"没有|一{MEASURE}?[^，。；]{{0,4}}(?:也|都)(?:没|不)|都没|都不|均未|全都?关|无(?!线)",
)
SOME = either("all|both|every|each|a|an|single|couple|pair", "都|全|每")
ALL = either("all|both|every|each", "全部|都|所有")
UNSURE = re.compile(
    r"\b(?:do not|don't|cannot|can't|could not|couldn't|unable to|no idea|not sure|unsure)\b.{0,12}"
    r"\b(?:know|tell|find|say|see|determine|check|sure|idea|read|access)?\b|不知道|不清楚|无法|不确定|查不到"
)
YES = re.compile(r"^\W*(?:yes|yeah|yep|yup|correct|right(?! now)|indeed|true|affirmative|是的?|对|没错|嗯|有的?|在的)(?!\w)")
NO = re.compile(
    rf"^\W*(?:no{COURTESY}(?! (?:one|wait)\b)|nope|nah|false|negative|not(?! (?:only|just)\b)|不是|不对|没有|没|不|否)(?!\w)"
)
NO_ONE = re.compile(r"^\W*no one\b")
YES_AND_NO = re.compile(r"^\W*(?:yes|no)[\s,/]*(?:and|or|/)[\s,]*(?:yes|no)\b")
IT_IS = re.compile(
    r"^\W*(?:(?:it|they|that|this|he|she)\b\s*(?:is|are|'s|'re|was)|(?:它|它们|都|现在|目前|已经)+(?:是|在)?)"
)
ONLY = either("only|just|but", "只|仅")
STATUS = either("on|off|open|closed|locked|unlocked|playing|paused|stopped|running|idle", "开|关|锁|亮|灭")
# ASKS matches a question, with or without a question mark; OFFERS matches an offer of more help; CLOSING is such an offer
# at the end of a sentence ("; tell me if you want it brighter", ，如需调节请告诉我), which neither asks nor claims
ASKS = re.compile(
    r"[?？]\W*$"
    r"|\b(?:please|kindly)\b.{0,12}\b(?:tell me|let me know|specify|clarify|confirm|choose|pick|say)\b"
    r"|\b(?:tell me|let me know|need to know|specify|clarify|not sure|unsure) (?:if|which|what|where|when|how|whether)\b"
    r"|请(?:问|告诉|说明|确认|选择|指定|指明)|(?:告诉我|需要知道|想知道|不确定).{0,8}(?:哪|什么|多少|几|何时|怎么)"
)
OFFERS = either(
    r"(?:any|some)thing (?:else|more)|let me know if|(?:what|how) else can i|how (?:can|may) i (?:help|assist)(?: you)?"
    r"|what can i do for you|need (?:any |more |further )*(?:help|assistance)|(?:can|may) i help you(?: with anything)?"
    r"|(?:is|was) that (?:ok|okay|all right|alright|fine)",
    "还(?:有|需要|要)(?:什么|别的|其他)|有什么(?:可以|需要|能)|需要(?:什么|其他)?帮|可以吗[?？]|这样(?:行|可以|好)吗",
)
CLOSING = re.compile(
    r"(?:^|[,;]) *(?:and |but )?(?:please |just |feel free to )*(?:tell me|let me know) (?:if|when|whenever|should) you"
    r"(?:'d| would)? (?:want|need|like|wish|have)\b(?:(?!\bor\b)[^?,;])*$"
    r"|(?:^|[,，;；]) *(?:如|若|要是|假如)[^?？,，;；]{0,12}?(?:需|想|要|有)(?!.*(?:哪|还是))[^?？;；]*?"
    r"(?:告诉我|告知我?|(?:吩咐|叫|联系|通知)我?)(?:一声|即可|就行|就好|吧|哦|哟)*[^\w?？]*$",
    re.I,
)
SENTENCE_END = re.compile(r"(?<=[!?！？。\n])|(?<=\.)\s")
