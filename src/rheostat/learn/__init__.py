"""What is learned from measured samples: the share of slow records as a function of workload and executors. Pure."""

from rheostat.learn.model import SlowModel
from rheostat.learn.polynomial import Polynomial
from rheostat.learn.samples import Sample
from rheostat.learn.training import Trained, TrainingOptions, stability, train

__all__ = ["Polynomial", "Sample", "SlowModel", "Trained", "TrainingOptions", "stability", "train"]
