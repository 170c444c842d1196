"""Made-up public texts, which show what a budget does before anybody sends a private one."""

from __future__ import annotations

EXAMPLES = (
    "The room was clean and quiet, but the breakfast was cold and the coffee tasted burnt.",
    "My doctor changed my blood pressure pills last week and I have felt dizzy ever since.",
    "Please book me on the first train from Leeds to London on Friday morning.",
    "The new phone is fast and the camera is great, but the battery is empty by noon.",
    "I have paid the rent for May twice. Can you send the second payment back to my account?",
    "Our team lost again last night, although they played much better in the second half.",
)
