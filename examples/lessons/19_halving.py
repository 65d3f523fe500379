"""Try many candidates by successive halving
=========================================

Most candidates show on few rows that they are bad. Successive halving gives more rows only to the
better third, round after round.
"""

from matplotlib import pyplot as plt
from scipy.stats import loguniform
from sklearn.datasets import make_classification

from gpuml.inspection import SearchDisplay
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import HalvingRandomSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

X, y = make_classification(9000, 60, n_informative=8, flip_y=0.1, random_state=0)

# %%
# Draw 81 candidates. The last round has a few of them, and all rows.
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
space = {"logisticregression__C": loguniform(1e-5, 1e3)}
search = HalvingRandomSearchCV(
    model, space, n_candidates=81, factor=3, min_resources=300, cv=3, random_state=0
)
search.fit(X, y)
rounds = zip(search.n_candidates_, search.n_resources_, strict=True)
for number, (candidates, rows) in enumerate(rounds):
    print(f"round {number}: {candidates} candidates on {rows} rows")

# %%
# The picture has a line for each round; the last one is the strongest.
SearchDisplay.from_search(search)
plt.title("Accuracy by round")
plt.show()
