"""The words of the stories: names, things, foods, places, animals, weather, and what they do.

Only words are kept here. `world` makes lexicons of them and decides who likes what; `tales`
holds the stories. Values may use the notation of `grammar`.
"""

from __future__ import annotations

__all__ = [
    "ADJECTIVES",
    "ANIMALS",
    "BOYS",
    "CRAFTS",
    "DAYS",
    "DISHES",
    "DWELLINGS",
    "FEARS",
    "FLAVOURS",
    "FOLK",
    "GIRLS",
    "HABITS",
    "HOBBIES",
    "NAME_ENDS",
    "NAME_MIDDLES",
    "NAME_STARTS",
    "ODDS",
    "PET_NAMES",
    "PLACES",
    "PLACE_NAMES",
    "PLANTS",
    "STREETS",
    "STREET_NAMES",
    "TENS",
    "THINGS",
    "UNITS",
    "WEATHERS",
]


def _words(text: str) -> list[str]:
    return text.split()


def _phrases(text: str) -> list[str]:
    return " ".join(text.split()).split(", ")


# ------------------------------------------------------------------------------------- who

GIRLS = _words("""
    Mia Nora Ada Wren Tilda Juno Hattie Ivy Rosa Greta Maud Polly Zora Edie Lotte Fern Clara Saskia
    Biddy Opal Marnie Thea Winnie Paloma Ines Frieda Dot Esme Hana Yasmin Odile Bess Pearl Sanne
    Amina Lucia Petra Olga Mabel Signe Tamsin Viola Noor Agnes Delphine Kirsten Romy Hazel
""")
BOYS = _words("""
    Tom Otto Ben Milo Hugo Jasper Felix Oscar Emil Rafi Bruno Ned Silas Gus Kofi Anton Theo Barnaby
    Ivo Wilf Casper Dov Linus Mateo Joris Ravi Stan Quentin Elio Percy Arlo Idris Tobias Nils
    Fergus Hamid Leopold Sven Cosmo Yuri Albie Morris Zeb Ezra Dario Kit Pascal Ossian
""")
# Rarer names are put together, and come in as many as the size of the language asks for.
NAME_STARTS = _words("""
    Al Bar Bel Bram Cal Cor Dar Del Dor El Er Fal Fen Fin Gal Gar Hal Har Il Jar Jes Kal Kel Lan
    Lor Mar Mel Mor Nev Nor Ol Os Pel Per Quil Ran Ros Sal Sel Tal Tor Ul Ver Wil Yar Zel
""")
NAME_MIDDLES = _words(
    "a e i o an en in on al el il ol ar er or as is us ad ed and end am em im om"
)
NAME_ENDS = {
    "she": _words(
        "ba da dra la ka lia lotte mina na nelle ra rin ssa tha tilde vina wen"
    ),
    "he": _words(
        "bert bin do dric fred kin lo lin mo mund ner rick son tin to vin win"
    ),
}

PET_NAMES = _words("""
    Biscuit Pepper Button Mustard Captain Pickle Waffle Bramble Socks Turnip Nutmeg Admiral Patch
    Crumb Treacle Domino Thimble Radish Gravy Colonel Pebble Marrow Custard Rumble Duchess Noodle
    Sprout Bobbin Pudding Clover Fidget Parsnip Sergeant Muffin Tuppence Whisker Dumpling Scout
    Mittens Barley Professor Teasel Hiccup Onion Bandit Lentil Moth Sultana Magnus Tinker
""")

# kind: sound, a verb for it; what it does when it is glad; what it gets up to; how it goes
ANIMALS = {
    "dog": (
        "Woof",
        "barked",
        "wagged {her} whole back half",
        "chewed a slipper",
        "trotted",
    ),
    "cat": (
        "Miaow",
        "mewed",
        "purred like a kettle",
        "slept in the bread basket",
        "strolled",
    ),
    "goat": ("Meh", "bleated", "skipped sideways", "ate half a curtain", "skipped"),
    "hen": (
        "Buk-buk",
        "clucked",
        "fluffed up like a cushion",
        "sat in the hat",
        "strutted",
    ),
    "duck": (
        "Quack",
        "quacked",
        "waggled {her} tail",
        "paddled in the sink",
        "waddled",
    ),
    "donkey": (
        "Hee-haw",
        "brayed",
        "twirled {her} ears",
        "leaned on the fence",
        "plodded",
    ),
    "rabbit": (
        "Thump",
        "thumped",
        "turned a small somersault",
        "nibbled the doormat",
        "hopped",
    ),
    "mouse": (
        "Eek",
        "squeaked",
        "danced on {her} hind legs",
        "hid in a sleeve",
        "scuttled",
    ),
    "tortoise": (
        "Hff",
        "puffed",
        "blinked twice",
        "walked under the sofa and stayed",
        "crept",
    ),
    "pig": (
        "Oink",
        "grunted",
        "curled {her} tail tighter",
        "ate the shopping list",
        "bustled",
    ),
    "magpie": (
        "Chack",
        "chattered",
        "bobbed up and down",
        "stole a teaspoon",
        "flapped",
    ),
    "goose": (
        "Honk",
        "honked",
        "stretched out {her} neck",
        "chased the postman",
        "marched",
    ),
    "parrot": (
        "Hello",
        "shrieked",
        "hung upside down",
        "said a rude word",
        "fluttered",
    ),
    "pony": ("Hrrr", "whinnied", "tossed {her} mane", "ate somebody's hat", "clopped"),
    "lamb": (
        "Baa",
        "baaed",
        "jumped with all four feet",
        "got stuck in a bucket",
        "pranced",
    ),
    "frog": (
        "Croak",
        "croaked",
        "puffed out {her} throat",
        "sat in the butter",
        "hopped",
    ),
    "ferret": (
        "Dook",
        "chuckled",
        "ran round in rings",
        "vanished into a boot",
        "darted",
    ),
    "owl": (
        "Hoo",
        "hooted",
        "turned {her} head right round",
        "sat on the clock",
        "flapped",
    ),
}

FEARS = _phrases("""
    geese, thunder, the dark, spiders, deep water, big dogs, moths, owls, the cellar, scarecrows,
    ladders, bees, cows, the wind in the chimney, wasps, steep stairs, shadows, swans, bats,
    clowns, snails, loud clocks, fog, the old well, mirrors at night, bulls, masks, sneezing
    horses, narrow bridges, beetles, the sea, falling leaves
""")
HOBBIES = _phrases("""
    whistling, counting things, singing, drawing maps, telling riddles, climbing trees, digging,
    mending clocks, skipping, collecting corks, reading aloud, juggling, making lists, walking
    backwards, naming clouds, knitting, tying knots, painting fences, keeping secrets, baking,
    writing letters, feeding birds, playing chess, jumping over puddles, finding shortcuts, sorting
    buttons, telling long jokes, asking questions, carving spoons, dancing
""")
HABITS = _phrases("""
    hummed, bit {her} lip, counted to ten, pulled {her} left ear, stood on one leg, sucked {her}
    thumb, twisted {her} hair, looked at {her} boots, whistled a sad tune, sat down on the ground,
    scratched {her} nose, talked to {herself}, rubbed {her} chin, folded {her} arms, closed one
    eye, hugged {her} knees, chewed {her} sleeve, blew out {her} cheeks, walked in a circle,
    sneezed, hid {her} hands, spoke very fast, put {her} hat on backwards
""")
DWELLINGS = _phrases("""
    a narrow house, a house like a ship, a house with a blue door, a tall thin house, the last
    house, a cottage with a crooked chimney, two rooms above the baker's, an old railway carriage,
    the house with the green roof, a windmill without sails, a room full of clocks, a yellow house,
    the smallest house, a flat over the bicycle shop, the house behind the big elm, a noisy house,
    a cottage with a hole in the roof, a caravan, the house with nine windows, a round house, an
    attic with a view of the sea, a house full of cousins, a house that leaned, a quiet house
""")
STREET_NAMES = _words("""
    Pepper Candle Crooked Cobble Button Herring Lantern Saddle Mustard Bell Chimney Ladder Needle
    Ribbon Spoon Thimble Bucket Anchor Feather Butter Weaver Clock Hatter Basket Copper Fiddle
    Ginger Kettle Tailor Barrel
""")
STREETS = _words("Lane Street Row Yard Steps Alley Square Hill Passage")

# ------------------------------------------------------------------------------------ what

ADJECTIVES = _words("""
    red blue green yellow purple orange white black silver golden striped spotted painted tiny
    little old big new crooked shiny battered speckled lucky plain faded dusty pink grey brown
    patched
""")
# noun: what one did with it, and doing so
THINGS = {
    "kite": "let it tug at its string",
    "whistle": "blew it until the windows hummed",
    "drum": "beat it softly with two fingers",
    "top": "set it spinning",
    "lantern": "held it up like a small moon",
    "boat": "sailed it across a puddle",
    "umbrella": "put it up and danced under it",
    "bucket": "wore it as a hat",
    "trumpet": "blew one long, wobbly note on it",
    "teapot": "poured pretend tea out of it",
    "basket": "swung it to and fro",
    "hat": "tried it on back to front",
    "scarf": "wound it round three times",
    "coat": "buttoned it up to the top",
    "marble": "rolled it along the floor",
    "key": "tried it in every lock",
    "bell": "rang it twice",
    "clock": "wound it up and listened",
    "compass": "turned until it pointed north",
    "spyglass": "looked through it at the clouds",
    "map": "spread it out on the grass",
    "jar": "held it up to the light",
    "box": "opened it and shut it again",
    "cup": "drank rain water out of it",
    "spoon": "looked at an upside-down face in it",
    "ball": "bounced it off the wall",
    "hoop": "rolled it all the way down the road",
    "sledge": "slid on it until dusk",
    "fiddle": "played the only tune that fitted",
    "flute": "played three notes on it",
    "puppet": "made it bow",
    "bear": "gave it a hug",
    "book": "read the first page aloud",
    "feather": "tickled the cat with it",
    "shell": "held it to one ear",
    "pebble": "kept it warm in one hand",
    "paintbrush": "painted a moustache on the fence with it",
    "purse": "snapped it open and shut",
    "mirror": "pulled a face at it",
    "candle": "smelled it, for it smelled of honey",
    "ribbon": "tied it into a bow",
    "blanket": "made a tent of it",
    "cushion": "sat on it like a king",
    "wagon": "pulled it round the yard",
    "stool": "stood on it to be tall",
    "kettle": "polished it until it shone",
    "button": "flipped it like a coin",
    "mitten": "made it talk like a puppet",
    "yo-yo": "made it sleep and wake up again",
    "rocking horse": "rode it to the moon and back",
    "wooden spoon": "conducted the birds with it",
    "snow globe": "shook it and watched the snow",
    "toy train": "pushed it over the carpet",
    "watering can": "watered the daisies with it",
    "paper crown": "wore it until supper",
    "magnifying glass": "looked at an ant with it",
    "music box": "let it play",
    "butterfly net": "caught nothing at all with it",
    "jigsaw": "put in the corners first",
    "bicycle bell": "rang it at a passing snail",
}

FLAVOURS = _words("""
    apple plum honey pumpkin mushroom carrot lemon ginger cherry walnut turnip onion cheese potato
    blackberry pear cinnamon leek parsnip raisin chestnut apricot cabbage poppy-seed rhubarb almond
    quince beetroot barley fig
""")
# dish: its form after "some", and whether there are many
DISHES = {
    "cake": ("some {} cake", "it"),
    "pie": ("a big {} pie", "it"),
    "soup": ("a pot of {} soup", "it"),
    "biscuits": ("a tin of {} biscuits", "them"),
    "pancakes": ("a stack of {} pancakes", "them"),
    "dumplings": ("a bowl of {} dumplings", "them"),
    "pudding": ("a dish of {} pudding", "it"),
    "buns": ("a bag of {} buns", "them"),
    "bread": ("a loaf of {} bread", "it"),
    "stew": ("a pot of {} stew", "it"),
    "tarts": ("a plate of {} tarts", "them"),
    "jam": ("a jar of {} jam", "it"),
    "porridge": ("a bowl of {} porridge", "it"),
    "fritters": ("a pan of {} fritters", "them"),
    "crumble": ("a dish of {} crumble", "it"),
    "muffins": ("a basket of {} muffins", "them"),
}
# what is sown, and what one finds in the end
PLANTS = {
    "pumpkin": "a pumpkin as big as a drum",
    "turnip": "a turnip with a face",
    "carrot": "a carrot as long as an arm",
    "sunflower": "a sunflower taller than the shed",
    "bean": "a bean plant up to the gutter",
    "cabbage": "a cabbage that filled the wheelbarrow",
    "radish": "a radish as red as a fire engine",
    "onion": "an onion that made the whole street cry",
    "pea": "a row of peas like little green drums",
    "marrow": "a marrow that looked like the mayor",
    "beetroot": "a beetroot the colour of sunset",
    "leek": "a leek fit for a giant's soup",
}

# ----------------------------------------------------------------------------------- where

PLACE_NAMES = _words("""
    Fern Willow Goose Thistle Otter Bramble Foggy Larch Magpie Nettle Puddle Quince Rook Sorrel
    Windy Yarrow Barley Clover Heron Juniper Mossy Sunny Badger Cuckoo Elder Foxglove Hollow
    Kingfisher Linden Mallow
""")
# kind: how one is there, and nooks in which one can sit, hide or forget something
PLACES = {
    "Pond": (
        "by",
        "among the reeds, under the jetty, beside the duck house, on a mossy log",
    ),
    "Wood": (
        "in",
        "in a hollow tree, under a heap of leaves, among the ferns, behind a fallen oak",
    ),
    "Hill": (
        "on",
        "under a gorse bush, behind a flat stone, in the long grass, beside a molehill",
    ),
    "Farm": (
        "at",
        "in the hay loft, behind the milk churns, under the cart, beside the trough",
    ),
    "Mill": (
        "at",
        "between two flour sacks, under the wheel, on the back step, behind the grindstone",
    ),
    "Bridge": (
        "at",
        "under the first arch, on the stone ledge, in the nettles, beside the toll box",
    ),
    "Green": (
        "on",
        "under the bench, behind the pump, beside the bandstand, in the flower bed",
    ),
    "Orchard": (
        "in",
        "in the fork of a tree, under a ladder, beside the beehives, in a fruit crate",
    ),
    "Beach": (
        "on",
        "in a rock pool, behind a sandcastle, under a rowing boat, between two dunes",
    ),
    "Market": (
        "at",
        "under the fish stall, behind the barrels, among the flower pots, in a crate",
    ),
    "Station": (
        "at",
        "under the big clock, behind the ticket box, on a trolley, beside the tracks",
    ),
    "Meadow": (
        "in",
        "beside the stile, in a ring of daisies, under the hedge, behind a haystack",
    ),
    "Brook": (
        "by",
        "between two stones, under the willow, on a sandbank, beside the stepping stones",
    ),
    "Castle": (
        "at",
        "behind the drawbridge, in the tower, under the stairs, on top of the wall",
    ),
    "Garden": (
        "in",
        "behind the rain barrel, under the rhubarb, in the toolshed, beside the gnome",
    ),
    "Harbour": (
        "at",
        "in a coil of rope, behind the lobster pots, under a net, on the last step",
    ),
    "Park": (
        "in",
        "beside the fountain, under the slide, behind the statue, in the rose bed",
    ),
    "Library": (
        "at",
        "between two atlases, under the long table, behind the globe, on the top shelf",
    ),
}

# ------------------------------------------------------------------------- when, and others

DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")

# adjective: it was ..., a first sentence, what goes on meanwhile, how it ends
WEATHERS = {
    "rainy": (
        "raining",
        "Rain ran down the windows.",
        "rain dripped from every leaf",
        "the rain had stopped, and the gutters sang",
    ),
    "sunny": (
        "sunny",
        "The sun came up like a fried egg.",
        "bees hummed in the warm air",
        "the sun was going down, red and round",
    ),
    "windy": (
        "windy",
        "The wind had blown all night.",
        "hats flew about like birds",
        "the wind had gone off to bother somebody else",
    ),
    "foggy": (
        "foggy",
        "The fog was as thick as porridge.",
        "the fog hid one house after another",
        "the fog had lifted, and there were stars",
    ),
    "snowy": (
        "snowing",
        "Snow had fallen in the night.",
        "snow squeaked under every boot",
        "it had begun to snow again, without a sound",
    ),
    "frosty": (
        "freezing",
        "There were ice flowers on the windows.",
        "every breath made a little cloud",
        "the frost was back, and drew on the windows",
    ),
    "cloudy": (
        "cloudy",
        "The sky was the colour of an old spoon.",
        "grey clouds went by like sheep",
        "the clouds had opened, and the moon looked in",
    ),
    "hot": (
        "hot",
        "It was too hot even for the flies.",
        "the road was warm as a stove",
        "it was cool at last, and the crickets began",
    ),
    "stormy": (
        "stormy",
        "The weathercock spun like a top.",
        "the shutters banged",
        "the storm had grumbled away over the hills",
    ),
    "misty": (
        "misty",
        "Mist lay over the fields like a sheet.",
        "the trees looked like tall strangers",
        "the mist was rising again, and it was time for bed",
    ),
}

# who: pronoun, and what they like to say
FOLK = {
    "the baker": ("she", "Mind the flour"),
    "the miller": ("he", "Everything goes round"),
    "the postman": ("he", "No letters today, only wind"),
    "the blacksmith": ("she", "Hot, hot, hot"),
    "the ferryman": ("he", "All aboard that's coming aboard"),
    "the teacher": ("she", "One question at a time"),
    "the clockmaker": ("he", "You are four minutes late"),
    "the fishwife": ("she", "Fresh as a daisy"),
    "the chimney sweep": ("he", "Don't shake my hand"),
    "the mayor": ("she", "I shall look into it"),
    "the tailor": ("he", "That sleeve is a disgrace"),
    "the beekeeper": ("she", "Speak softly"),
    "the cobbler": ("he", "Left foot first"),
    "the gardener": ("she", "Off the grass, please"),
    "the lamplighter": ("he", "One more and then one more"),
    "the librarian": ("she", "Shh"),
}

# what pockets and drawers are full of
TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
UNITS = _words("one two three four five six seven eight nine")

ODDS = _phrases("""
    a button, a cork, two corks, a bent nail, a bus ticket, half a biscuit, a dead moth, a pencil
    stub, a fish hook, an old coin, a snail shell, a piece of string, a broken comb, a walnut, a
    candle end, a doll's shoe, a ball of wool, a playing card, a wooden tooth, a paper boat, a
    glass eye, a postcard from Peru, a cold potato, a whistle without a pea, a spare wheel, a list
    of names, a tin soldier, a very old sandwich, a clapper without a bell, a wet sock, three
    acorns, a spider, a teaspoon, a left glove, a jam label, a lump of chalk, a cracked cup, a
    marble with a star in it, a photograph of a horse, a curtain ring, a lemon, a toothbrush, a
    feather duster, seven pins, a magnet, a rubber band, an empty jar, a shopping list, a shoelace,
    a chess queen, a bar of soap, a boiled egg, a map of the moon, a beard made of wool, a tent
    peg, an oily rag, a pine cone, a dried frog, a squashed plum, a birthday candle, a door handle,
    the lid of a pot, the leg of a chair, a sugar lump, a horseshoe, a library card, a dog biscuit,
    a paper clip, a broken watch, an onion, a fork, a lock without a key, a bottle of ink, a wig,
    two left shoes, an odd domino, a peach stone, a letter to the king, a tap, a handful of sand,
    an old tram ticket, four peas, a bird's nest, a harmonica, a balloon, a tin of sardines, a
    cloth cap, a violin string, a thimble, a radio valve, a slice of ham, a conker, a pair of
    spectacles, a hot-water bottle, a beetle in a matchbox, a plaster, a stamp from Chile, a
    mousetrap, a false nose, a lamp without a shade, a duck's feather, a carrot, a tuning fork, a
    wishbone, a recipe for glue, a torn flag, a blue bead, a bicycle pump, a raffle ticket, a paper
    hat, a toy anchor, a sleepy wasp, a ship's biscuit, a knotted handkerchief, a collar stud, a
    bit of cheese, an umbrella handle, a wooden leg, a newspaper from last year, a milk tooth, a
    tiny hammer
""")

# what children build: how it goes well, how it goes badly
CRAFTS = {
    "raft": ("floated, and so did they", "sank, but slowly"),
    "cart": (
        "rolled down the slope like thunder",
        "lost a wheel, and then another wheel",
    ),
    "tree house": ("held all of them and a picnic", "came down in the night"),
    "flying machine": ("flew as far as the hedge", "stayed on the ground and hummed"),
    "scarecrow": ("scared one crow", "made the crows laugh"),
    "den": ("kept out the wind and the grown-ups", "fell in when somebody sneezed"),
    "submarine": ("dived and came up again", "filled with tadpoles"),
    "puppet theatre": (
        "was sold out on the first night",
        "folded up during the best part",
    ),
    "windmill": ("turned all day", "turned once and flew away"),
    "telescope": (
        "showed them the moon, and a man cleaning his teeth",
        "showed only eyelashes",
    ),
    "soapbox racer": ("won against a bicycle", "went backwards"),
    "bridge": ("carried them across, one by one", "was a little too short"),
}
