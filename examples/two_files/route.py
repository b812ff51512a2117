"""The order in which the towns are visited."""

from distance import distance


# EVOLVE-BLOCK-START
def route(towns):
    first = 3
    order, left = [first], [i for i in range(len(towns)) if i != first]
    while left:
        order.append(left.pop(min(range(len(left)), key=lambda k: distance(towns[order[-1]], towns[left[k]]))))
    return order


# EVOLVE-BLOCK-END
