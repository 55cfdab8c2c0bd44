"""The clairvoyant optimum: the least that any policy could have paid."""
