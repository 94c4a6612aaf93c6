"""Texts that say the same have one form; texts that do not, differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.personalhome.tasks.text_normal_form import normal_form

SAME = [
    ("The kitchen.", "kitchen", "  KITCHEN!", "ｋｉｔｃｈｅｎ"),
    ("living room", "living_room", "the Living-Room"),
    ("Emma's room", "Emma’s room"),
    ("21.5 °C", "21.5℃", "twenty-one point five degrees Celsius", "21.5 degrees", "二十一点五度", "21.5摄氏度", "摄氏21.5"),
    ("-5 °C", "minus five degrees", "零下五度", "零下5度"),
    ("70 °F", "70 degrees Fahrenheit", "华氏70度"),
    ("18:30", "6:30 PM", "6.30 p.m.", "18:30:00", "下午六点半", "下午6点30分", "十八点三十分"),
    ("06:00", "6 am", "six o'clock", "早上六点", "6:00", "六点钟"),
    ("00:00", "midnight", "12 a.m.", "晚上12点"),
    ("noon", "12:00", "12 pm", "中午12点"),
    ("2025-03-04", "March 4, 2025", "4 March 2025", "Tuesday, Mar 4th, 2025", "2025/3/4", "2025年3月4日",
     "二〇二五年三月四日", "2025年3月4日星期二", "the 4th of March, 2025", "on March 4th 2025"),
    ("2025-03-04T18:30:00", "2025-03-04 18:30", "March 4, 2025 at 6:30 pm", "6:30 pm on March 4, 2025",
     "2025年3月4日下午6点半"),
    ("25/3/2025", "3/25/2025", "2025-03-25"),
    ("March 4", "4th March", "3月4日"),
    ("March 2025", "2025年3月", "2025-03"),
    ("90 min", "1.5 hours", "an hour and a half", "1 hour and 30 minutes", "一个半小时", "1小时30分钟", "ninety minutes"),
    ("45%", "45 percent", "forty-five per cent", "百分之四十五", "45％"),
    ("$1,200.50", "1200.5 dollars", "1,200.50 USD"),
    ("three cats", "3 cats"),
    ("三只猫", "3只猫"),
    ("3", "three", "三", "3个", "3.0"),
    ("1500 W", "1.5 kW", "1.5 kilowatts"),
    ("35 µg/m³", "35 micrograms per cubic meter", "35微克每立方米"),
    ("72", "seventy-two"),
    ("72 years old", "72 years", "72岁"),
    ("2.5 kg", "2500 g", "2.5公斤"),
    ("1 times", "once", "Once.", "1 time", "one time", "1次", "1 次", "一次", "一次。"),
    ("2 times", "twice", "two times", "2次", "两次", "二次"),
    ("3 days", "three days", "3天", "三天"),
    ("yes", "Yes.", "true", "是的", "对"),
    ("no", "False", "否", "不是"),
    ("客厅的灯", "客厅 的灯。"),
]  # fmt: skip

DIFFERENT = [
    ("18:30", "6:30"), ("3", "13"), ("3", "-3"), ("2.5", "25"), ("21.5 °C", "21.5 °F"), ("21.5", "21.5 °C"), ("45%", "0.45"),
    ("2025-03-04", "2025-04-03"), ("2025-03-04", "March 4"), ("3/4/2025", "2025-03-04"), ("90 minutes", "90 seconds"),
    ("9 am", "9 pm"), ("10-12", "2"), ("两三只猫", "23只猫"), ("A", "B"), ("+", "-"), ("h1_2", "h1_3"), ("25:00", "1:00"),
    ("小灯", "大灯"), ("2025-13-04", "2025-12-04"), ("", "?"),
    ("once", "at once"), ("twice", "once"), ("一次", "一次性"), ("三天", "三天后"), ("一起", "1起"),
]  # fmt: skip


@pytest.mark.parametrize("texts", SAME, ids=lambda texts: texts[0])
def test_what_says_the_same_has_one_form(texts):
    assert len({normal_form(text) for text in texts}) == 1, {text: normal_form(text) for text in texts}


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_differs_stays_different(one, other):
    assert normal_form(one) != normal_form(other)


def test_forms_that_people_read():
    assert (
        normal_form("The 4th of March, 2025 at 6:30 pm, 21.50 °C in the Living_Room")
        == "2025-03-04 18:30 21.5 celsius in living room"
    )
    assert normal_form("A") == "a" and normal_form("?!") == "?!"


@given(st.text(max_size=60))
def test_no_text_is_too_odd(text):
    assert normal_form(text) == normal_form(f"  {text.strip()} ")


@given(st.dates(), st.times())
def test_every_moment_has_one_form(date, time):
    wanted = normal_form(f"{date.isoformat()} {time:%H:%M}")
    spelt = f"{date:%B} {date.day}, {date.year:04d} at {time.hour % 12 or 12}:{time:%M} {'ap'[time.hour >= 12]}m"
    assert (
        normal_form(spelt)
        == wanted
        == normal_form(f"{date.year:04d}年{date.month}月{date.day}日{time.hour}点{time.minute}分")
    )


@given(st.integers(-9999, 9999), st.sampled_from(["°C", "%", "minutes", "lux", ""]))
def test_different_numbers_never_meet(value, unit):
    assert normal_form(f"{value} {unit}") != normal_form(f"{value + 1} {unit}")
    assert normal_form(f"{value} {unit}") == normal_form(f"{value}.0 {unit}")
