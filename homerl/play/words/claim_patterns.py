"""Patterns that recognise claims, denials, guesses and conclusions in lower-case English and Chinese text.

DID matches a clause that says that something was done just now, ADMITS one that says that something cannot be done or
failed (NO_FAULT is what only looks so), SUPPOSED one that speaks of what may be or of another time, and INQUIRY a sentence
that asks how something is.
"""

from __future__ import annotations

import re


def either_pattern(english: str, chinese: str) -> re.Pattern[str]:
    """A pattern that matches the English alternatives as whole words, and the Chinese ones anywhere."""
    return re.compile(rf"\b(?:{english})\b|{chinese}")


# Chinese measure words, which stand between a number and what it counts: 两盏灯
MEASURE = "[个盏台间只把扇处部套]"
# between clauses; a comma or a full stop within a number (1,000 or 21.5) is none
CLAUSE = re.compile(r"[;:!?\n—–…，。；：！？、]|,(?!\d{3})|\.(?!\d)|\b(?:and|but|while|whereas)\b|而|但")
# between statements that may be denied apart: "the hall is on, not the kitchen"
SENTENCE = re.compile(
    r"[;!?\n—。；！？]|\.(?!\d)|\b(?:but|while|whereas|however|although)\b"
    r"|,(?= ?(?:and )?not\b)|,? (?:and )?(?=(?:no others?|none of the (?:others?|rest)|nothing else|none else)\b)"
    r"|，(?=不|没|而不|其他|其余|其它|别的|另外)|但|而(?!是)"
)
BRACKET = re.compile(r"\([^()]*\)|（[^（）]*）|\[[^\[\]]*\]")
# what follows is left out: "all except the hall"
EXCEPT = either_pattern("except(?: for)?|other than|apart from|besides", "除了|除[^湿霜尘菌]")
COURTESY = r"(?! (?:problems?|worries|doubt|need|wonder)\b)"  # after "no", which then denies nothing
# "not only" and 不仅 deny nothing, nor do 不好意思 (excuse me) and 没问题 (no problem)
NEGATION = either_pattern(
    rf"not(?! (?:only|just)\b)|no{COURTESY}|none|never|neither|nor|cannot|without|rather than|instead of|\w+n't",
    "没(?!问题|错)|不(?!好意思|过|客气|用谢|仅|但|光|只)|未|非(?!常)|并无",
)
PAUSE = re.compile(r"[,，:：]")
# "warmer than the hall" claims nothing of the hall, nor does 比客厅暖和; what comes last after "so" is the claim
STANDARD = re.compile(
    r"(?<=\bwarmer|\bhotter|\bhigher)((?:[^.;!?\n]|\.(?=\d))*?)\bthan\b(?:(?!\b(?:but|while|and|or)\b)[^,.;!?\n]|\.(?=\d))*"
    r"|(?<![不没])比[^，。；！？,;!?\n低冷凉不没]{1,20}?(?=(?:要|更|还)?(?:暖|热|高))"
)
NOT_SO_WARM = re.compile(
    r"(?:\bnot|\w+n't|\bno) [^,.;!?]{0,20}?\b(?:warm|hot|high)(?:er)?\b|(?:不比|不如|没有?)[^，。；！？]{1,20}?(?:暖|热|高)"
)
# what follows is the claim, and what came before its reason
CONCLUSION = re.compile(r"(?:^|[,.;:!])\s*(?:and )?(?:so|therefore|hence|thus)\b|所以|因此")
# what a sentence says is not so: "not Monday" in "not Monday but Tuesday"
DENIED_PART = re.compile(r"(?:\bnot\b|\w+n't\b|不是|并非)(?:(?!\bbut\b|而是)[^,.;!?，。；！？\n])*")
# before a number: "it is not 21"
DENIED = re.compile(r"(?:\bnot|n't|不是|并非|没有)\s*(?:exactly |quite )?$")
# numbers that are a bound or a total and no claim: "more than 5", "of the 5", "5 of which"
BOUND = re.compile(
    r"\b(?:than|above|below|over|under|exceed\w*|at least|at most|past|between|out of|none of)\s*$"
    r"|\b(?:of (?:all|these|the)(?: the)?|\d of|(?:two|three|four|five|one) of)\s*$|(?:^|[,.;:] ?)of\s*$"
    r"|(?:高于|低于|超过|大于|小于|不到|至少|最多|多于|少于)\s*$"
)
WHOLE = re.compile(r"(?<![\d/.])\d+ ?/ ?$")  # before the total: "3/5 lights"
# after a total (5盏中有3盏) or a bound (50%以上)
SHARE = re.compile(rf"^\s*{MEASURE}?[^，。；：,.;:]{{0,4}}(?:之?中|里)(?:有|,|，)|^\s*%?\s*(?:以上|以下)")
# between two numbers of one list or range: "2 or 3", "2-3"
LINK = re.compile(r"^\s*(?:[-–~,、/]|to|or|and|or maybe|maybe|或者?|到|至|和)?\s*$")
# between two numbers: the second takes back the first, or is another guess
GUESS = either_pattern(
    "or|maybe|perhaps|possibly|might|could be|either|actually|sorry|i mean|no wait|correction|alternatively|if not",
    "可能|或者?|也许|大概是|不对|应该是|要么|不然",
)
DOUBT = either_pattern("or|maybe|perhaps|either", "或|也许|可能")
# beside the last number: it sums up the others
ENDING = either_pattern(
    "total|altogether|in all|makes|overall|therefore|average|sum|equals|so|difference",
    "=|一共|总共|共有?|合计|所以|平均|总计|因此|差",
)
LISTED = re.compile(r"[:：]|\b(?:because|since)\b|因为")
# the left side of an equation
EQUATION = re.compile(r"(?<![\w.%°℃() +−–×÷/-])[(\d][\d.%°c℃() +−–×÷/-]*=")
# in the clause of a number that counts something else: "3 are on and 2 are off"
OTHERS = either_pattern(
    "off|not|other|others|rest|remaining|closed|unlocked|target|set", "关|其余|其他|另外|剩|没|不|目标|设"
)
# after "one" in Chinese: 一盏也没有 is "not one"
NONE_OF = re.compile(r"[^，。；]{0,6}(?:也|都)(?:没|不|未)")
# there are none; "no longer", "no idea" and "no problem" do not say so
NOUGHT = either_pattern(
    r"none|nothing|zero|nobody|no (?!(?:longer|idea|information|data|problem|way|access|one|wait|doubt)\b)[a-z]+"
    r"|not (?:any|a single|one)|\w+n't (?:any|a single|one)",
    rf"没有|一{MEASURE}?[^，。；]{{0,4}}(?:也|都)(?:没|不)|都没|都不|均未|全都?关|无(?!线)",
)
# there are some, but not how many
SOME = either_pattern("all|both|every|each|a|an|single|couple|pair", "都|全|每")
ALL = either_pattern("all|both|every|each", "全部|都|所有")
# the speaker does not know
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
# what a yes-or-no answer without yes or no may say, where no phrases tell which of the two it is
TELLS = either_pattern(
    "not|none|nothing|nobody|neither|all|both|every|each|any|detected|on|off|open|closed|locked|unlocked|warmer",
    "没|未|无|都|全|有|检测到|开|关|锁|热|暖",
)
SYNONYMS = {  # further phrases for one that an answer may use
    "开着": ("亮着", "亮的", "开的", "开了", "开启", "打开", "运行", "没关", "没有关", "未关"),
    "关着": ("关的", "关了", "关闭", "灭的", "没开", "没有开", "未开", "没亮", "没有亮"),
    "打开": ("开着", "拉开", "敞开", "开的", "开了"),
    "关上": ("关着", "关闭", "关的", "拉上", "合上", "关了", "没开", "没有开"),
    "锁着": ("锁好", "锁上", "上锁", "锁了", "锁的"),
    "没锁": ("未锁", "未上锁", "没上锁", "没有锁", "解锁", "开锁"),
    "在播放": ("播放中",),
}
# the opening of a statement, after yes or no: "yes, it is off" contradicts itself
IT_IS = re.compile(
    r"^\W*(?:(?:it|they|that|this|he|she)\b\s*(?:is|are|'s|'re|was)|(?:它|它们|都|现在|目前|已经)+(?:是|在)?)"
)
ONLY = either_pattern("only|just|but", "只|仅")
STATUS = either_pattern("on|off|open|closed|locked|unlocked|playing|paused|stopped|running|idle", "开|关|锁|亮|灭")
# ASKS matches a question, with or without a question mark; OFFERS matches an offer of more help; CLOSING is such an offer
# at the end of a sentence ("; tell me if you want it brighter", ，如需调节请告诉我), which neither asks nor claims
ASKS = re.compile(
    r"[?？؟]\W*$"
    r"|\b(?:please|kindly)\b.{0,12}\b(?:tell me|let me know|specify|clarify|confirm|choose|pick|say)\b"
    r"|\b(?:tell me|let me know|need to know|specify|clarify|not sure|unsure) (?:if|which|what|where|when|how|whether)\b"
    r"|请(?:问|告诉|说明|确认|选择|指定|指明)|(?:告诉我|需要知道|想知道|不确定).{0,8}(?:哪|什么|多少|几|何时|怎么)"
)
OFFERS = either_pattern(
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
# an offer after a statement in one sentence: "it is on, shall I turn it off?", 开着，需要我关掉吗
OFFER = re.compile(
    r"[,;—–-]+ *(?:and |but |so )?"
    r"(?:(?:do you |would you |you )?(?:want|like) me to|should i|shall i|can i|may i)\b[^?,;]*\?\W*$"
    r"|[,，;；] *(?:请问)?(?:您|你)?(?:是否|需不需要|需要|要不要|要|想不想|想)(?:让)?我[^?？,，;；]*[?？]\W*$"
)
QUESTION = re.compile(
    r"^\W*(?:is|are|do|does|did|has|have|was|were|which|what|where|when|who|how|shall|should|would|could|can|may)\b"
    r"|[?？吗哪谁]|什么|多少|还是|是不是|要不要|是否|几"
)
SENTENCE_END = re.compile(r"(?<=[!?！？。\n])|(?<=\.)\s")
STATEMENT_END = re.compile(rf"{SENTENCE_END.pattern}|(?<=[;；؟])")  # what stands before a semicolon asks nothing
ACTED = (
    "turned|switched|opened|closed|locked|unlocked|dimmed|brightened|raised|lowered|increased|decreased|reduced|changed"
    "|adjusted|started|stopped|paused|resumed|muted|unmuted|activated|deactivated|enabled|disabled|armed|disarmed|created"
    "|added|removed|deleted|scheduled|updated|moved|cancell?ed|executed|triggered|played"
)
ACTING = "turning|switching|opening|closing|locking|unlocking|dimming|setting|raising|lowering|starting|stopping|playing"
LEAD = (
    r"^\W*(?:(?:ok(?:ay)?|sure(?: thing)?|alright|all right|great|got it|certainly|of course|absolutely|yes|no problem)"
    r"\b\W*)*"
)
BY_HAND = (
    "打开|开启|关闭|关掉|关上|关好|开好|调[到至成为高低亮暗好]|设[为成定好置]|锁[上好住]|解锁|启动|停止|暂停|切换"
    "|拉[上开下]|升高|降低|取消|执行"
)
DONE = (  # all that a bare confirmation says
    rf"{LEAD}(?:(?:it|that|everything|all|(?:the )?(?:task|job))(?:'s| is| has been)? |(?:i'm|(?:we|you)(?:'re| are)) )?"
    r"(?:now |all |already |successfully )*(?:done|set|finished|completed?|taken care of)"
    r"(?: (?:for you|as (?:you )?(?:asked|requested|wished)|now|successfully))*\W*$"
    r"|^\W*(?:好的?|行|嗯)?(?:都|全)?(?:好了|搞定了?|[办弄做设调]好了|办妥|(?:操作|执行|设置)?(?:完成|成功|完毕)了?)\W*$"
)
DID = re.compile(
    rf"{DONE}|\b(?:i|we)(?:'ve| have)? (?:(?:now|just|also|successfully|gone ahead and) )*(?:{ACTED}|set|shut|put)\b"
    rf"|\b(?:has|have|it's|they've) (?:(?:now|just|both|all|also) )*been (?:successfully )?(?:{ACTED}|set|shut|put|done)\b"
    rf"|\b(?:was|were) successfully (?:{ACTED}|set|shut|put)\b"
    rf"|\b(?:was|were) (?:{ACTED}|set|shut|put) (?:(?:on|off|up|down) )?successfully\b"
    rf"|{LEAD}(?:successfully (?:{ACTED}|set|shut|put)|(?:{ACTED}) (?:on|off|up|down|the|your|all|both|it|them|back|to))\b"
    rf"|(?:\b(?:is|are)|'s|'re) (?:(?:both|all|also) )*now (?:{ACTED}|on|off|open|shut|set|running|playing|dim|active)\b"
    r"|(?:\b(?:is|are)|'s|'re) (?:on|off|open|closed|locked|unlocked) now\b"
    rf"|\bi(?:'m| am) (?:now )?(?:{ACTING})\b|{LEAD}(?:{ACTING}) .*\b(?:now|for you)\W*$"
    rf"|已经?(?!是|在|处于)[^，。]{{0,24}}?(?:{BY_HAND})(?!着|的|状态)|已经?(?:全部?|都)?(?:好了|完成|搞定|办[好妥]|处理好)"
    rf"|(?:成功|正在?)[为帮给][您你][^，。]{{0,20}}?(?:{BY_HAND})|(?:{BY_HAND}|[开关锁][好上掉]?)了(?!吗)"
    rf"|^\W*正在(?:{BY_HAND})(?!着|的)|已经?[开关锁](?:灯|门|窗)"
    r"|[调设升降][到至为成高低][^，。]{1,10}了$"
)
TELLS_STATE = either_pattern(  # what may follow from a deed, as "it is locked" and "the house is secure"
    r"(?:(?:is|are|was|were|stays?|remains?)|(?:'s|'re)) (?:(?:now|all|both|also|still|already|safely|securely|fully) )*"
    rf"(?:on|off|open|shut|set|up|down|running|playing|armed|safe|secured?|ready|{ACTED})"
    r"|(?:ist|sind|war|waren|bleibt|bleiben) (?:(?:jetzt|nun|alle|beide|auch|noch|schon|bereits|wieder|sicher|fest) )*"
    r"(?:(?:an|aus|auf|zu)(?= (?:und|aber)\b|[^\w\s]|\s*$)|offen|sicher|bereit|scharf|fertig"
    r"|(?:ein|aus|an|ab)ge(?:schaltet|stellt)"
    r"|(?:ab|auf|ge|ver)(?:ge)?schlossen|(?:ge|ver|ent)(?:sperrt|riegelt)|geöffnet|gestartet|gestoppt|angehalten"
    r"|(?:de)?aktiviert|gedimmt)",
    "[开关锁亮灭](?:着|了|好|上|掉|闭|启)|打开|[未没](?:上?锁|开|关)|安全",
)
WORD = re.compile(r"\w")
INTERJECTION = re.compile(rf"{LEAD}$")  # it confirms if it is all that is said
BARE = re.compile(  # a sentence that confirms and says nothing else
    rf"{DONE}|{LEAD}$"
    r"|^\W*(?:(?:好的?|行|嗯)[，,]? *)?(?:已经?)?(?:都|全部?)?(?:好了|完成了?|搞定了?|办好了)\W*$"
    r"|^\W*(?:(?:ok|gut|alles klar)\W+)?(?:(?:(?:das|es|alles) )?ist )?(?:erledigt|gemacht|fertig)\W*$"
)
ADMITS = either_pattern(
    r"(?:could|can|did)(?: not|n't)|cannot|unable|fail(?:s|ed|ure)?|errors?|unfortunately|impossible|refused|rejected"
    r"|(?:am|are|is|was|were|do|does|have|has)(?: not|n't) (?:\w+ )?(?:able|available|changed?|done|exist|find|have|know"
    r"|possible|respond(?:ing)?|see|support(?:ed)?|understand|work(?:ed|ing)?)|not found|un(?:available|reachable|supported)"
    r"|there(?:'s| is| are) no|(?:found|find|see|have) no|no such|no (?:\w+ ){1,4}(?:found|available|exists?)",
    "没(?!问题|错|关系|那么)|未(?!来)|无法|不(?:能|可|支持|存在|了)|失败|出错|错误|拒绝|离线|[找做办连]不[到上]|[打开关锁]不[开上动]",
)
NO_FAULT = either_pattern(  # in these, words of ADMITS admit nothing
    "(?:no|without(?: any)?) (?:errors?|failures?|problems?|issues?)(?: found)?|without fail"
    "|(?:cannot|can't) (?:wait|believe)",
    "没(?:有|什么|有什么|有任何)?(?:大?问题|错误?|关系|故障)|没事|错不了|不能[再更]",
)
SUPPOSED = either_pattern(
    "if|when|once|unless|until|would|could|should|might|may|will|can|let me|going to|since|ago|yesterday|times|last|already"
    "|nothing|nobody|by (?:someone|somebody)",
    "如果|要是|的话|可以|能够|需要|是否|会(?!议|客)",
)
TO_BE = "is|are|was|were|did|does|has|had|will|isn't|aren't|wasn't|weren't|didn't|doesn't|hasn't"
WHAT = "what|which|who|how|when|where|why"
INQUIRY = re.compile(
    r"^\W*(?:(?:so|and|hey|hi|hello|please|well|ok(?:ay)?)\b\W*)*"
    rf"(?:(?:{TO_BE})\b(?! (?:it|that) (?:ok(?:ay)?|possible|all ?right)\b| you (?:able|willing))"
    rf"|(?:do|have) (?:i|we|you|they)\b(?! mind)|(?:{WHAT})(?:'s\b| (?:{TO_BE}|do|can|should)\b(?! you))"
    r"|(?:what|which|who|how)\b(?! (?:about|if|not|i)\b)"
    rf"|(?:(?:can|could|would|will|do) you )?(?:tell me|let me know|check|see|know) (?:if|whether|{WHAT})\b)"
    r"|^(?:请问)?(?!.*(?:[帮请能把]|可以|[好行]吗|怎么[这那]么|(?:哪|什么|谁)[^，]{0,4}都))"
    r".*(?:吗|什么|多少|几(?!乎)|哪|谁|怎么|是不是|有没有)"
    r"|^(?:请|麻烦|你|您|能不能|能|可不可以|可以|帮我|给我)*(?:告诉我|看一?看|看一?下|查一?下|查一?查|确认一下).*"
    r"(?:吗|没|什么|多少|几|哪|谁|怎么|是不是|有没有|是否|温度|状态)|了没有?\W*$|([开关锁])没\1"
)
