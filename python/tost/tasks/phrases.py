"""The words of haystacks, without digits, and the names of codes, none of which a haystack has."""

QUALITIES = "old quiet small heavy bright narrow young tired clean round gentle distant".split()
PEOPLE = "baker sailor teacher farmer painter doctor singer gardener miller guard writer child".split()
DEEDS = "carried found painted sold cleaned lost mended hid bought washed praised borrowed".split()
THINGS = "lamp basket letter chair bottle wheel rope mirror hammer blanket kettle ladder".split()
PLACES = ["near the river", "in the market", "behind the church", "on the bridge", "after the rain", "before the feast",
          "under the old oak", "at the harbour", "in the early morning", "beside the road", "late at night",
          "by the garden wall"]
KEYS = ("amber birch cobalt delta ember falcon granite hazel indigo jasper kelp lotus maple nectar onyx pepper quartz raven "
        "saffron topaz umber violet walnut yarrow zephyr anchor basalt cedar dahlia eagle fennel garnet").split()
