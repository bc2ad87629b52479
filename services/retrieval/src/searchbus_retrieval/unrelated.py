"""Questions of everyday life and of many subjects, to which hardly a collection has an answer.

How near a collection comes to them is what "nothing near" looks like there: background.py. A few of
them may be answered by a collection all the same, so the middle of them counts, not the nearest.
"""

from __future__ import annotations

__all__ = ["UNRELATED"]

UNRELATED = (
    "how long should bread dough rise before it is baked",
    "which vitamins does a newborn baby need",
    "who won the last football world cup",
    "how to change a flat tyre on a bicycle",
    "cheap flights from Madrid to Lisbon in the summer holidays",
    "symptoms of a broken wrist",
    "what is the plot of Romeo and Juliet",
    "how do bees make honey",
    "rules for castling in chess",
    "best season to prune apple trees",
    "how far is the moon from the earth",
    "how to write a cover letter for a job as a nurse",
    "when was the Great Wall of China built",
    "why does my cat scratch the sofa",
    "learn to play the guitar as an adult",
    "what does a notary do when a house is sold",
    "train a neural network to recognise handwriting",
    "difference between a stack and a queue",
    "how are contact lenses cleaned",
    "history of the Ottoman Empire",
    "who painted the ceiling of the Sistine Chapel",
    "how to remove red wine from a carpet",
    "causes of the First World War",
    "how deep do whales dive",
    "which battery does this phone need",
    "lyrics of a sad love song from the nineties",
    "how is steel made from iron ore",
    "what is the capital of Mongolia",
    "how to train for a first marathon",
    "interest on a student loan after graduation",
    "how does an aeroplane wing make lift",
    "installing a printer driver on a laptop",
    "side effects of antibiotics in children",
    "recipe for a vegan chocolate cake",
    "how does photosynthesis work",
    "meaning of the seventh amendment",
    "which knots do climbers use",
    "opening hours of the city library",
    "how to calm a barking dog at night",
    "what is the speed of light in glass",
)
